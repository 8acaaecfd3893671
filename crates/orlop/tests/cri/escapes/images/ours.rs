//! Runs on orlop alone.

use super::*;
use crate::world::ours;

/// CVE-2023-0778, CVE-2024-1753 and their kin: a path within an image that is mounted.
#[tokio::test]
async fn a_part_of_an_image_volume_is_within_the_image() {
    let world = ours!();
    let victim = world.node.scratch().subdir("victim");
    fs::write(victim.join("file"), SECRET).expect("write");
    let path = victim.display().to_string();
    let layer = Layer::new()
        .dir("data", 0o755)
        .file("data/file", "of the image", 0o644)
        .symlink("absolute", &path)
        .symlink("relative", &format!("../../../../../../..{path}"))
        .symlink("good", "/data");
    let image = ImageBuilder::new().layer(layer).build();
    let volume = world.image(&image, "subpath:1").await;
    let pod = world.node.pod("subpath");
    let pod_id = world.run_pod(&pod).await;
    let climbing = format!("../../../../../../../..{path}");
    for (number, sub_path) in ["good", "absolute", "relative", &path, &climbing]
        .into_iter()
        .enumerate()
    {
        let name = format!("c{number}");
        let spec = world
            .container(&name)
            .shell("cat /volume/file")
            .with(|config| {
                config.mounts.push(Mount {
                    container_path: "/volume".to_owned(),
                    readonly: true,
                    image: Some(ImageSpec {
                        image: volume.clone(),
                        ..ImageSpec::default()
                    }),
                    image_sub_path: sub_path.to_owned(),
                    ..Mount::default()
                });
            });
        let run = world.cri.run(&pod_id, &pod, &spec).await;
        if sub_path != "good" {
            run.expect_err(sub_path);
            continue;
        }
        assert_eq!(world.cri.wait_exited(&run.expect("run")).await.exit_code, 0);
        let log = fs::read_to_string(pod.logs().join(format!("{name}.log"))).expect("read");
        assert!(log.ends_with("of the image\n"), "{log}");
    }
    world.finish().await;
}
