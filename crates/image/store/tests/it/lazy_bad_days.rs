//! Bad days of what layers come from as they are read, and of who serves them.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use orlop_image_store::{Image, ReadFailure};
use orlop_testkit::proxy::{Door, TokenRules};
use orlop_testkit::{
    Chunked, Cut, Fault, FaultProxy, ImageBuilder, KeyKind, Layer, Login, Rule, Signer, skip_unless,
};
use tokio::sync::broadcast;

use crate::lazy::scene::{Scene, assert_same, can, everything, unpacked};
use crate::support::until;

/// How long a read waits here.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An image that is mounted, of which nothing was read.
struct Mounted {
    // First: it goes while there is still somebody who answers its reads.
    mount: OwnedFd,
    scene: Scene,
    image: Image,
    blob: String,
    failures: broadcast::Receiver<ReadFailure>,
}

/// Begins a test: skips it where nothing can be lazy, else gives a [`Mounted`].
macro_rules! mounted {
    () => {{
        skip_unless!(can());
        Mounted::new().await
    }};
}

impl Mounted {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(set: impl FnOnce(&mut orlop_image_store::Config)) -> Self {
        let layer = Layer::new()
            .noise("a", 1_000_000)
            .noise("b", 1_000_000)
            .noise("c", 1_000_000);
        let built = ImageBuilder::new()
            .cut(layer.chunked(Chunked::EStargz, &Cut::new().chunk(100_000)))
            .build();
        let scene = Scene::with(|config| {
            config.lazy.timeout = TIMEOUT;
            set(config);
        })
        .await;
        let image = scene.pulled(&built).await;
        let mount = scene.mounted(&image).await;
        Self {
            failures: scene.place.images.read_failures(),
            blob: format!("blobs/{}", built.layers[0].digest),
            scene,
            image,
            mount,
        }
    }

    fn befalls(&self, fault: Fault) {
        self.scene.proxy.rule(Rule::on(&self.blob, fault));
    }

    async fn reads(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.scene.reads(&self.mount, path).await
    }

    /// Reads what cannot be had. What is told of it.
    async fn fails(&mut self, path: &str) -> ReadFailure {
        let start = Instant::now();
        let error = self.reads(path).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
        assert!(start.elapsed() < 5 * TIMEOUT, "{:?}", start.elapsed());
        let told = tokio::time::timeout(TIMEOUT, self.failures.recv()).await;
        told.expect("it is told").expect("somebody tells")
    }

    /// All is well again, a moment later.
    async fn heals(&self) {
        self.scene.proxy.heal();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        for path in ["a", "b", "c"] {
            let read = self.reads(path).await;
            assert_eq!(read.map(|it| it.len()).ok(), Some(1_000_000), "{path}");
        }
        let (_place, whole) = unpacked(&self.scene.registry.reference("app:1")).await;
        let (found, expected) = (everything(&self.mount).await, everything(&whole).await);
        assert_same(&found, &expected, "in the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_gone_fails_reads_and_serves_them_when_it_is_back() {
    let mut mounted = mounted!();
    mounted.befalls(Fault::Disconnect);
    let told = mounted.fails("a").await;
    assert_eq!(told.images, [mounted.image.id]);
    assert_eq!(told.names, [mounted.scene.proxy.reference("app:1")]);
    assert_eq!(told.registry, mounted.scene.proxy.host());
    assert!(!told.reason.is_empty());
    let counts = mounted.scene.place.images.lazy_counts();
    assert!(counts.failed > 0);
    mounted.heals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_stalls_holds_nobody_longer_than_is_said() {
    let mut mounted = mounted!();
    let hold = Duration::from_mins(1);
    mounted.befalls(Fault::Stall { after: 1000, hold });
    let told = mounted.fails("b").await;
    assert!(told.timed_out, "{}", told.reason);
    assert!(mounted.scene.place.images.lazy_counts().timed_out > 0);
    mounted.heals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_registry_that_stalls_can_be_killed() {
    skip_unless!(can());
    let mounted = Mounted::with(|config| config.lazy.timeout = Duration::from_secs(20)).await;
    let hold = Duration::from_mins(1);
    mounted.befalls(Fault::Stall { after: 0, hold });
    let path = crate::support::inside(&mounted.mount, "a");
    let mut reader = std::process::Command::new("cat")
        .arg(
            path.to_str()
                .unwrap()
                .replace("self", &std::process::id().to_string()),
        )
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(reader.try_wait().unwrap().is_none(), "it waits");
    let start = Instant::now();
    reader.kill().unwrap();
    tokio::task::spawn_blocking(move || reader.wait().unwrap())
        .await
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_were_changed_reach_nobody() {
    let mut mounted = mounted!();
    mounted.befalls(Fault::Corrupt { offset: 5000 });
    let told = mounted.fails("a").await;
    let is_named = told.reason.contains("digest") || told.reason.contains("decompress");
    assert!(is_named, "{}", told.reason);
    mounted.heals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_forgets_about_ranges_is_not_believed() {
    let mut mounted = mounted!();
    mounted.befalls(Fault::IgnoreRange);
    let told = mounted.fails("c").await;
    assert!(told.reason.contains("the whole layer"), "{}", told.reason);
    mounted.heals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_without_ranges_gives_whole_layers() {
    skip_unless!(can());
    let layer = Layer::new().noise("a", 1_000_000);
    let built = ImageBuilder::new().chunked(layer, Chunked::EStargz).build();
    let scene = Scene::new().await;
    scene.proxy.rule(Rule::on("blobs/", Fault::IgnoreRange));
    let image = scene.pulled(&built).await;
    assert_eq!(scene.here(&image).await, None);
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "a").await.unwrap().len(), 1_000_000);
    assert!(scene.guard.servers().len() <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_contents_that_is_not_the_promised_one_is_not_used() {
    skip_unless!(can());
    let layer = Layer::new().noise("a", 1_000_000);
    let mut chunked = layer.chunked(Chunked::EStargz, &Cut::new());
    for (name, value) in &mut chunked.annotations {
        if name.ends_with("toc.digest") {
            *value = orlop_image_store::Digest::of(b"another").to_string();
        }
    }
    let built = ImageBuilder::new().cut(chunked).build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    assert_eq!(scene.here(&image).await, None, "it was pulled whole");
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "a").await.unwrap().len(), 1_000_000);
}

/// Nobody computes the digest of a lazy layer's archive: an image that claims to have a layer of another's
/// must not have the other get what it brings.
#[tokio::test(flavor = "multi_thread")]
async fn no_image_gets_the_lazy_layer_of_one_that_lies_about_its_archive() {
    skip_unless!(can());
    let scene = Scene::new().await;
    let honest = Layer::new()
        .file("f", "honest", 0o644)
        .chunked(Chunked::EStargz, &Cut::new());
    let mut evil = Layer::new()
        .file("f", "evil!!", 0o644)
        .chunked(Chunked::EStargz, &Cut::new());
    evil.diff_id.clone_from(&honest.diff_id);
    let evil = ImageBuilder::new().cut(evil).marked("evil").build();
    scene.registry.push(&evil, "evil:1").await;
    let evil = scene.pull("evil:1").await.unwrap();
    let mount = scene.mounted(&evil).await;
    assert_eq!(scene.reads(&mount, "f").await.unwrap(), b"evil!!");
    let honest = ImageBuilder::new().cut(honest).build();
    let honest = scene.pulled(&honest).await;
    let mount = scene.mounted(&honest).await;
    assert_eq!(scene.reads(&mount, "f").await.unwrap(), b"honest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_in_the_middle_is_replaced() {
    let mounted = mounted!();
    mounted.scene.proxy.guard(Door::Bearer(TokenRules {
        requests_per_token: Some(2),
        ..TokenRules::default()
    }));
    for path in ["a", "b", "c"] {
        assert_eq!(mounted.reads(path).await.unwrap().len(), 1_000_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_is_succeeded_and_readers_go_on() {
    let mounted = mounted!();
    assert_eq!(mounted.reads("a").await.unwrap().len(), 1_000_000);
    for path in ["b", "c"] {
        let before = mounted.scene.guard.servers();
        mounted.scene.guard.kill();
        assert_eq!(mounted.reads(path).await.unwrap().len(), 1_000_000);
        assert_ne!(mounted.scene.guard.servers(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_boot_layers_are_fetched_further() {
    let mut mounted = mounted!();
    assert_eq!(mounted.reads("a").await.unwrap().len(), 1_000_000);
    let scene = &mut mounted.scene;
    let images = &scene.place.images;
    images.lease("container", &mounted.image).await.unwrap();
    images.close().await;
    // Nobody is left who has the session.
    scene.guard.kill();
    scene.place.reopen().await;
    let mount = scene.mounted(&mounted.image).await;
    for path in ["a", "b", "c"] {
        assert_eq!(scene.reads(&mount, path).await.unwrap().len(), 1_000_000);
    }
    let (_place, whole) = unpacked(&scene.registry.reference("app:1")).await;
    let (found, expected) = (everything(&mount).await, everything(&whole).await);
    assert_same(&found, &expected, "after a boot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_fails_reads_until_there_is_room() {
    skip_unless!(can());
    let disk = orlop_testkit::Scratch::new();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16m", "disk"])
        .arg(disk.dir())
        .status();
    assert!(mounted.unwrap().success());
    let root = disk.path("images");
    let mut mounted = Mounted::with(|config| config.root = root).await;
    let filler = disk.path("filler");
    let mut fill = std::fs::File::create(&filler).unwrap();
    let full = std::io::copy(&mut std::io::repeat(1), &mut fill).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let told = mounted.fails("a").await;
    assert!(told.reason.contains("no space left"), "{}", told.reason);
    drop(fill);
    std::fs::remove_file(filler).unwrap();
    mounted.heals().await;
    mounted.scene.place.images.close().await;
    drop(mounted);
    orlop_testkit::scratch::unmount_below(disk.dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_that_somebody_reads_stay_while_their_image_is_removed() {
    let mounted = mounted!();
    let images = &mounted.scene.place.images;
    images.lease("container", &mounted.image).await.unwrap();
    images.remove(&mounted.image.id.to_string()).await.unwrap();
    images.gc(Duration::ZERO).await.unwrap();
    assert_eq!(mounted.reads("b").await.unwrap().len(), 1_000_000);
    images.release("container").await.unwrap();
    assert_eq!(mounted.scene.place.layer_dirs(), 0);
    // Who has it open still has what was here, and fails for the rest.
    assert_eq!(mounted.reads("b").await.unwrap().len(), 1_000_000);
    mounted.reads("c").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_off_is_gone_on_with() {
    skip_unless!(can());
    let mut mounted = Mounted::with(|config| config.lazy.cache = 1).await;
    assert_eq!(mounted.reads("a").await.unwrap().len(), 1_000_000);
    let before = mounted.scene.here(&mounted.image).await.unwrap();
    mounted.scene.place.config.lazy.cache = 0;
    mounted.scene.place.reopen().await;
    mounted.scene.until_whole(&mounted.image).await;
    let fetched = mounted.scene.place.images.lazy_counts().fetched;
    assert!(before.0 > 1_000_000);
    assert!(
        fetched < 2_500_000,
        "{fetched} bytes: what was here came again"
    );
    until("it is served no more", || !mounted.scene.is_served()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_pull_are_those_of_the_reads() {
    skip_unless!(can());
    let login = Login::new("me", "secret");
    let layer = Layer::new().noise("a", 1_000_000);
    let built = ImageBuilder::new().chunked(layer, Chunked::EStargz).build();
    let scene = Scene::new().await;
    scene.registry.push(&built, "app:1").await;
    scene.proxy.guard(Door::Basic(login.clone()));
    scene.pull("app:1").await.unwrap_err();
    let request = orlop_image_store::PullRequest {
        reference: scene.proxy.reference("app:1"),
        auth: Some(orlop_image_store::Credentials {
            username: login.user,
            password: login.password,
            ..orlop_image_store::Credentials::default()
        }),
        ..orlop_image_store::PullRequest::default()
    };
    let image = scene.place.images.pull(request).await.unwrap();
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "a").await.unwrap().len(), 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_asked_before_a_byte_of_a_layer_is() {
    skip_unless!(can());
    let policy = orlop_testkit::Scratch::new();
    let file = policy.path("policy.json");
    // Whether it is signed is known only once its manifest is here.
    let signer = Signer::new(&policy.subdir("keys"), "key", KeyKind::P256);
    let signed = serde_json::json!({"default": [{
        "type": "sigstoreSigned",
        "keyPath": signer.public_key(),
        "signedIdentity": {"type": "matchRepoDigestOrExact"},
    }]});
    std::fs::write(&file, signed.to_string()).unwrap();
    let layer = Layer::new().noise("a", 1_000_000);
    let built = ImageBuilder::new().chunked(layer, Chunked::EStargz).build();
    let scene = Scene::with(|config| config.policies.node = Some(file)).await;
    scene.registry.push(&built, "app:1").await;
    let refused = scene.pull("app:1").await.unwrap_err();
    assert!(
        matches!(refused, orlop_image_store::Error::NotAllowed { .. }),
        "{refused}"
    );
    assert_eq!(scene.proxy.sent_of(&built.layers[0].digest), 0);
    std::fs::write(
        policy.path("policy.json"),
        r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
    )
    .unwrap();
    scene.pull("app:1").await.unwrap();
    assert!(scene.proxy.sent_of(&built.layers[0].digest) > 0);
}

/// A range that is another's is verified like any other bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_lies_about_ranges_is_not_believed() {
    let mounted = mounted!();
    for fault in [
        Fault::ShiftedRange { by: 7 },
        Fault::OtherRange { by: 7 },
        Fault::ShortRange { bytes: 100 },
    ] {
        mounted.scene.proxy.heal();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let told = format!("{fault:?}");
        mounted.befalls(fault);
        let error = mounted.reads("a").await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{told}: {error}");
    }
    mounted.heals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_comes_back_in_time_costs_nobody_a_read() {
    skip_unless!(can());
    let mounted = Mounted::with(|config| config.lazy.timeout = Duration::from_secs(20)).await;
    mounted.scene.proxy.leave();
    let reading = mounted.reads("a");
    let back = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        mounted.scene.proxy.come_back();
    };
    let (read, ()) = tokio::join!(reading, back);
    assert_eq!(read.unwrap().len(), 1_000_000);
}

/// A read that was killed still waits in the kernel for its page.
#[tokio::test(flavor = "multi_thread")]
async fn removing_a_layer_waits_for_no_read() {
    skip_unless!(can());
    let mounted = Mounted::with(|config| config.lazy.timeout = Duration::from_secs(30)).await;
    let Mounted {
        mount,
        scene,
        image,
        blob,
        ..
    } = mounted;
    scene.proxy.rule(Rule::on(&blob, Fault::stall(0)));
    let path = crate::support::inside(&mount, "a");
    let path = path
        .to_str()
        .unwrap()
        .replace("self", &std::process::id().to_string());
    let mut reader = std::process::Command::new("cat")
        .arg(path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    reader.kill().unwrap();
    tokio::task::spawn_blocking(move || reader.wait().unwrap())
        .await
        .unwrap();
    // What is removed is the last that has the layer, and waits for its pages.
    drop(mount);
    let start = Instant::now();
    let removed = scene.place.images.remove(&image.id.to_string()).await;
    removed.unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_before_it_is_begun() {
    skip_unless!(can());
    let mut layer = Layer::new().noise("a", 1_000_000);
    for index in 0..20 {
        layer = layer.file(&format!("{index}"), "small", 0o644);
    }
    let built = ImageBuilder::new().chunked(layer, Chunked::EStargz).build();
    type Set = fn(&mut orlop_image_store::Config);
    let limits: [(Set, &str); 3] = [
        (|config| config.limits.layer_bytes = 900_000, "900000 bytes"),
        (|config| config.limits.layer_entries = 10, "10"),
        (
            |config| config.limits.image_bytes = 1_900_000,
            "1900000 bytes",
        ),
    ];
    for (set, told) in limits {
        let scene = Scene::with(set).await;
        scene.registry.push(&built, "app:1").await;
        let refused = scene.pull("app:1").await.unwrap_err();
        let is_told = matches!(refused, orlop_image_store::Error::TooLarge { .. });
        assert!(is_told && refused.to_string().contains(told), "{refused}");
        let sent = scene.proxy.sent_of(&built.layers[0].digest);
        assert!(sent < 100_000, "{sent} bytes of the layer were fetched");
        scene.place.sweep().await;
        assert_eq!(scene.place.layer_dirs(), 0);
    }
}

/// Who pulls by digest what is here need not know anything.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_a_stranger_take_nobody_s_reads_away() {
    skip_unless!(can());
    let login = Login::new("me", "secret");
    let layer = Layer::new().noise("a", 1_000_000).noise("b", 1_000_000);
    let built = ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &Cut::new().chunk(100_000)))
        .build();
    let mut scene = Scene::new().await;
    scene.registry.push(&built, "app:1").await;
    scene.proxy.guard(Door::Basic(login.clone()));
    let request = |password: &str| orlop_image_store::PullRequest {
        reference: scene.proxy.reference(&format!("app@{}", built.digest())),
        auth: Some(orlop_image_store::Credentials {
            username: login.user.clone(),
            password: password.to_owned(),
            ..orlop_image_store::Credentials::default()
        }),
        ..orlop_image_store::PullRequest::default()
    };
    let right = request(&login.password);
    let wrong: Vec<_> = (0..20)
        .map(|nth| request(&format!("guess {nth}")))
        .collect();
    let image = scene.place.images.pull(right.clone()).await.unwrap();
    for wrong in &wrong {
        scene.place.images.pull(wrong.clone()).await.unwrap();
    }
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "a").await.unwrap().len(), 1_000_000);
    drop(mount);
    // After a restart nobody is known: a stranger comes first, and then who may read.
    scene.place.reopen().await;
    scene.place.images.pull(wrong[0].clone()).await.unwrap();
    let mount = scene.mounted(&image).await;
    scene.reads(&mount, "b").await.unwrap_err();
    scene.place.images.pull(right).await.unwrap();
    // Who was refused is asked again in a second.
    let mut read = scene.reads(&mount, "b").await;
    for _ in 0..50 {
        if read.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        read = scene.reads(&mount, "b").await;
    }
    assert_eq!(read.unwrap().len(), 1_000_000);
}

/// What a node's own work reads of a layer is brought by other threads than those that wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn reads_on_all_threads_of_the_node_are_answered() {
    skip_unless!(can());
    const MORE_THAN_THREADS: usize = 100;
    let mounted = Mounted::new().await;
    let mut reads = Vec::new();
    for number in 0..MORE_THAN_THREADS {
        let path = crate::support::inside(&mounted.mount, ["a", "b", "c"][number % 3]);
        reads.push(tokio::spawn(orlop_pool::blocking(move || {
            std::fs::read(path)
        })));
    }
    for read in reads {
        let read = read.await.unwrap().unwrap();
        assert_eq!(read.map(|it| it.len()).ok(), Some(1_000_000));
    }
}

/// What sweeps, seals and collects may take all its threads for as long as the disk likes.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_answered_while_the_store_s_own_work_has_all_its_threads() {
    skip_unless!(can());
    const MORE_THAN_THREADS: usize = 100;
    let mounted = Mounted::new().await;
    let mut sweeps = Vec::new();
    let mut releases = Vec::new();
    for _ in 0..MORE_THAN_THREADS {
        let (release, held) = std::sync::mpsc::channel::<()>();
        sweeps.push(tokio::spawn(orlop_pool::storing(move || {
            held.recv().is_err()
        })));
        releases.push(release);
    }
    assert_eq!(
        mounted.reads("a").await.map(|it| it.len()).ok(),
        Some(1_000_000)
    );
    drop(releases);
    for sweep in sweeps {
        assert!(sweep.await.unwrap().unwrap());
    }
}

/// A layer of two images from two registries, and a mount of the image whose registry is asked second.
struct Shared {
    mount: OwnedFd,
    blob: String,
    scene: Scene,
    other: FaultProxy,
    scene_is_first: bool,
}

impl Shared {
    fn first(&self) -> &FaultProxy {
        if self.scene_is_first {
            &self.scene.proxy
        } else {
            &self.other
        }
    }

    async fn new() -> Self {
        let scene = Scene::with(|config| config.progress_timeout = Duration::from_mins(1)).await;
        let layer = || Layer::new().noise("a", 1_000_000).noise("b", 1_000_000);
        let cut = || layer().chunked(Chunked::EStargz, &Cut::new().chunk(100_000));
        let other = FaultProxy::before(scene.registry.address());
        let mut images = Vec::new();
        let mut blob = String::new();
        for (name, proxy) in [("app", &scene.proxy), ("other", &other)] {
            let built = ImageBuilder::new().cut(cut()).marked(name).build();
            blob = format!("blobs/{}", built.layers[0].digest);
            scene.registry.push(&built, &format!("{name}:1")).await;
            let reference = proxy.reference(&format!("{name}:1"));
            images.push(scene.place.pull(&reference).await.unwrap());
        }
        // Images are asked in the order of their identifiers.
        let scene_is_first = images[0].id < images[1].id;
        let mount = scene.mounted(&images[usize::from(scene_is_first)]).await;
        Self {
            mount,
            blob,
            scene,
            other,
            scene_is_first,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_stalls_lies_or_leaves_delays_no_reads_of_a_layer_that_another_has() {
    skip_unless!(can());
    const LIMIT: Duration = Duration::from_secs(2);
    let stall = Fault::Stall {
        after: 0,
        hold: Duration::from_mins(1),
    };
    for fault in [stall, Fault::Corrupt { offset: 7 }, Fault::Disconnect] {
        let shared = Shared::new().await;
        shared.first().rule(Rule::on(&shared.blob, fault.clone()));
        for path in ["a", "b"] {
            let start = Instant::now();
            let read = shared.scene.reads(&shared.mount, path).await;
            assert_eq!(read.unwrap().len(), 1_000_000);
            let took = start.elapsed();
            assert!(took < LIMIT, "{fault:?}: {took:?}");
        }
        let asked = shared.first().count(http::Method::GET, &shared.blob);
        assert!(asked > 0, "{fault:?}: another registry was asked first");
    }
}
