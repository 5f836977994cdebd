use pandofs_testkit::Subject;
use pandofs_testkit::cluster::{Cluster, ClusterConfig};
use pandofs_testkit::inodes::{Paths, pandofs_traits};
use pandofs_testkit::op::*;
#[test]
fn dbg() {
    let cluster = ClusterConfig::scattered(17179869185, 4);
    let mut p = Paths::new(Cluster::new(cluster.clone()), "tree", pandofs_traits());
    for op in [
        Op::Mkdir {
            path: Path::new("b"),
            mode: 511,
        },
        Op::Symlink {
            path: Path::new("n14"),
            target: Blob(b"/nowhere/n5".to_vec()),
        },
        Op::Create {
            path: Path::new("n38"),
            mode: 2541,
            handle: None,
        },
        Op::Mkdir {
            path: Path::new("n31"),
            mode: 511,
        },
        Op::Symlink {
            path: Path::new("d"),
            target: Blob(b"/nowhere/c".to_vec()),
        },
        Op::Stat {
            path: Path::new("n6/b"),
        },
        Op::Rename {
            from: Path::new("n31"),
            to: Path::new("b"),
            no_replace: false,
        },
    ] {
        eprintln!("=== {op:?}");
        let r = p.run(&Step { caller: 0, op });
        eprintln!("{r:?}");
    }
}
