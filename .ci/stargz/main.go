// Debian has stargz-snapshotter as a library and a client, without its server. This is one: containerd's service of
// snapshots on a socket, and behind it the library with its defaults. Its arguments are the socket and a directory.
// Registries are those at loopback addresses, by plain HTTP.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/contrib/snapshotservice"
	"github.com/containerd/containerd/reference"
	"github.com/containerd/containerd/remotes/docker"
	"github.com/containerd/stargz-snapshotter/fs"
	"github.com/containerd/stargz-snapshotter/fs/config"
	"github.com/containerd/stargz-snapshotter/fs/layer"
	"github.com/containerd/stargz-snapshotter/fs/source"
	"github.com/containerd/stargz-snapshotter/snapshot"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
)

// What containerd's CRI plugin says of a layer.
const (
	image  = "containerd.io/snapshot/cri.image-ref"
	target = "containerd.io/snapshot/cri.layer-digest"
	layers = "containerd.io/snapshot/cri.image-layers"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: stargz-server SOCKET DIRECTORY")
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(socket, directory string) error {
	files, err := fs.NewFilesystem(filepath.Join(directory, "stargz"), config.Config{},
		fs.WithGetSources(sources), fs.WithOverlayOpaqueType(layer.OverlayOpaqueTrusted))
	if err != nil {
		return fmt.Errorf("starting the file system: %w", err)
	}
	snapshotter, err := snapshot.NewSnapshotter(context.Background(),
		filepath.Join(directory, "snapshotter"), files, snapshot.AsynchronousRemove)
	if err != nil {
		return fmt.Errorf("starting the snapshotter: %w", err)
	}
	// Unmounts what is mounted.
	defer snapshotter.Close()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		server.Stop()
	}()
	return server.Serve(listener)
}

// Where a layer comes from.
func sources(labels map[string]string) ([]source.Source, error) {
	name, err := reference.Parse(labels[image])
	if err != nil {
		return nil, fmt.Errorf("the image's name: %w", err)
	}
	own, err := digest.Parse(labels[target])
	if err != nil {
		return nil, fmt.Errorf("the layer's digest: %w", err)
	}
	all := []ocispec.Descriptor{{Digest: own}}
	for _, text := range strings.Split(labels[layers], ",") {
		// What else is in the image is resolved at the same time.
		if other, err := digest.Parse(text); err == nil && other != own {
			all = append(all, ocispec.Descriptor{Digest: other})
		}
	}
	return []source.Source{{
		Hosts:    hosts,
		Name:     name,
		Target:   all[0],
		Manifest: ocispec.Manifest{Layers: all},
	}}, nil
}

func hosts(name reference.Spec) ([]docker.RegistryHost, error) {
	// Its library asks for the transport by name.
	client := &http.Client{Transport: http.DefaultTransport}
	known := docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchLocalhost), docker.WithClient(client))
	return known(name.Hostname())
}
