//! Files that are given a size while sessions write to their data objects.

use crate::support::{Cluster, Step, link, name};
use pandofs_api::{
    DataReply, DataRequest, FIRST_TRUNCATIONS, InodeReply, Refusal, Reply, Request, op,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{FsError, Ino, Leased, Position, SessionId, SetAttr, Time};

const WRITER: u64 = 7;
const OTHER: u64 = 8;
const MIB: u64 = 1 << 20;

fn ask(cluster: &mut Cluster, session: u64, request: Request) -> Step {
    let input = cluster.request_by(session, 0, request);
    cluster.input(0, input)
}

/// The inode by the last of these answers, and what that leases.
fn answer(outputs: &[Output]) -> Option<(InodeReply, Vec<Leased>)> {
    outputs.iter().rev().find_map(|output| match output {
        Output::Answer { result, leased, .. } => match result {
            Ok(Reply::Inode(inode)) => Some((inode.clone(), leased.clone())),
            other => panic!("{other:?}"),
        },
        _ => None,
    })
}

/// To what sizes data objects are to be truncated, and the numbers of the orders.
fn truncations(outputs: &[Output]) -> Vec<(u64, u64)> {
    let cut = |output: &Output| match output {
        Output::Data {
            ticket,
            request: DataRequest::Truncate { length, .. },
            ..
        } => Some((*length, *ticket)),
        _ => None,
    };
    outputs.iter().filter_map(cut).collect()
}

/// The sizes alone.
fn sizes(outputs: &[Output]) -> Vec<u64> {
    truncations(outputs).iter().map(|cut| cut.0).collect()
}

/// Two sessions that take leases, and a striped file of 1 MiB that the first has written.
fn cluster() -> (Cluster, Ino) {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    for session in [WRITER, OTHER] {
        let takes = Input::TakesLeases {
            session: SessionId(session),
        };
        cluster.input(0, takes);
        let lookup = Request::Lookup(op::Lookup {
            dir: Ino::ROOT,
            name: name("nothing"),
        });
        let step = ask(&mut cluster, session, lookup);
        cluster.carry(step.outputs, &mut None);
    }
    let ino = cluster.file("file");
    let striped = ask(&mut cluster, WRITER, Request::Stripe(op::Stripe { ino }));
    assert!(answer(&striped.outputs).is_some(), "{striped:?}");
    assert_eq!(wrote(&mut cluster, ino, MIB, FIRST_TRUNCATIONS).size, MIB);
    (cluster, ino)
}

/// The writer has written up to `end`, knowing of so many truncations: the attributes after it has said so.
fn wrote(cluster: &mut Cluster, ino: Ino, end: u64, truncations: u32) -> pandofs_types::Attr {
    let request = Request::WroteData(op::WroteData {
        ino,
        start: 0,
        end,
        mtime: Time(cluster.now),
        sparse: false,
        truncations,
    });
    let step = ask(cluster, WRITER, request);
    let outputs = recalled(cluster, step);
    answer(&outputs).expect("it is answered").0.attr
}

/// All holders of leases give them back.
fn recalled(cluster: &mut Cluster, step: Step) -> Vec<Output> {
    let mut outputs = step.outputs;
    let recalls: Vec<_> = outputs
        .extract_if(.., |output| matches!(output, Output::Recall(_)))
        .collect();
    for recall in recalls {
        let Output::Recall(recall) = recall else {
            unreachable!("only these were taken out");
        };
        let (session, number) = (recall.session, recall.number);
        let step = cluster.input(0, Input::Recalled { session, number });
        outputs.extend(step.outputs);
    }
    outputs
}

fn resize(cluster: &mut Cluster, session: u64, ino: Ino, size: u64) -> Vec<Output> {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    let step = ask(cluster, session, Request::SetAttr(op::SetAttr { ino, set }));
    recalled(cluster, step)
}

/// The data objects are truncated: what comes of that.
fn done(cluster: &mut Cluster, outputs: &[Output]) -> Vec<Output> {
    let mut after = Vec::new();
    for (_, ticket) in truncations(outputs) {
        let reply = DataReply::Done;
        let step = cluster.input(0, Input::DataDone { ticket, reply });
        after.extend(step.outputs);
    }
    cluster.now += TICK_INTERVAL.as_nanos() as i64;
    after.extend(cluster.input(0, Input::Tick).outputs);
    after
}

#[test]
fn a_report_of_what_was_cut_away_changes_nothing() {
    let (mut cluster, ino) = cluster();
    let outputs = resize(&mut cluster, OTHER, ino, 10);
    assert_eq!(truncations(&outputs).first().map(|cut| cut.0), Some(10));
    assert_eq!(answer(&outputs), None, "it is not cut yet");
    let outputs = done(&mut cluster, &outputs);
    let (inode, _) = answer(&outputs).expect("it is cut");
    assert_eq!(
        (inode.attr.size, inode.truncations),
        (10, FIRST_TRUNCATIONS + 1)
    );

    let late = wrote(&mut cluster, ino, 2 * MIB, FIRST_TRUNCATIONS);
    assert_eq!(late, inode.attr);
    let after = wrote(&mut cluster, ino, 20, FIRST_TRUNCATIONS + 1);
    assert_eq!(after.size, 20);
}

#[test]
fn nobody_is_leased_the_attributes_while_a_cut_is_pending() {
    let (mut cluster, ino) = cluster();
    let leased = |cluster: &mut Cluster| {
        let step = ask(cluster, WRITER, Request::GetAttr(op::GetAttr { ino }));
        let (inode, leased) = answer(&step.outputs).expect("it is answered");
        (inode.truncations, leased)
    };
    assert_eq!(
        leased(&mut cluster),
        (FIRST_TRUNCATIONS, vec![Leased::ATTRIBUTES])
    );
    let outputs = resize(&mut cluster, OTHER, ino, 10);
    assert_eq!(leased(&mut cluster), (FIRST_TRUNCATIONS + 1, vec![]));
    done(&mut cluster, &outputs);
    assert_eq!(
        leased(&mut cluster),
        (FIRST_TRUNCATIONS + 1, vec![Leased::ATTRIBUTES])
    );
}

/// Bytes that others have written beyond the end and not reported are cut away before the file ends there.
#[test]
fn a_file_that_is_made_longer_is_cut_if_others_have_it_open() {
    for others in [false, true] {
        let (mut cluster, ino) = cluster();
        let sessions = if others {
            &[WRITER, OTHER][..]
        } else {
            &[OTHER]
        };
        for session in sessions {
            let open = Request::Open(op::Open {
                ino,
                access: 6,
                truncate: false,
                data: false,
            });
            ask(&mut cluster, *session, open);
        }
        let outputs = resize(&mut cluster, OTHER, ino, 3 * MIB);
        assert_eq!(!truncations(&outputs).is_empty(), others);
        let outputs = match others {
            true => done(&mut cluster, &outputs),
            false => outputs,
        };
        let (inode, _) = answer(&outputs).expect("it is done");
        assert_eq!(
            (inode.attr.size, inode.truncations),
            (3 * MIB, FIRST_TRUNCATIONS + u32::from(others))
        );
    }
}

/// Every request to a data object goes by the count of truncations, so that asking for one again harms nothing.
/// The size of the file after a request that makes it longer.
fn longer(cluster: &mut Cluster, ino: Ino, request: Request) -> Result<u64, Refusal> {
    let step = ask(cluster, WRITER, request);
    let outputs = recalled(cluster, step);
    let answers = outputs.iter().rev().find_map(|output| match output {
        Output::Answer { result, .. } => Some(result.clone()),
        _ => None,
    });
    match answers.expect("it is answered")? {
        Reply::Inode(inode) => {
            assert_eq!(inode.attr.ino, ino);
            Ok(inode.attr.size)
        }
        other => panic!("{other:?}"),
    }
}

/// Of four objects two have followed. A client that writes to those by the new number would make the file longer, and others
/// read what the rest still have.
#[test]
fn a_file_gets_longer_when_all_of_it_is_cut() {
    let (mut cluster, ino) = cluster();
    let wrote = |end| {
        Request::WroteData(op::WroteData {
            ino,
            start: end - 5,
            end,
            mtime: Time(0),
            sparse: false,
            truncations: FIRST_TRUNCATIONS + 1,
        })
    };
    let set = |size| {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        Request::SetAttr(op::SetAttr { ino, set })
    };
    let cut = resize(&mut cluster, OTHER, ino, 10);
    for request in [wrote(100), set(100)] {
        let longer = longer(&mut cluster, ino, request);
        assert_eq!(longer, Err(Refusal::TryAgain));
    }
    // A write before the end changes nothing of that.
    assert_eq!(longer(&mut cluster, ino, wrote(10)), Ok(10));
    done(&mut cluster, &cut);
    assert_eq!(longer(&mut cluster, ino, wrote(100)), Ok(100));
}

#[test]
fn data_objects_are_told_which_cut_it_is() {
    let (mut cluster, ino) = cluster();
    let outputs = resize(&mut cluster, OTHER, ino, 10);
    let numbered = |outputs: &[Output]| -> Vec<u32> {
        let truncations = |output: &Output| match output {
            Output::Data {
                request: DataRequest::Truncate { truncations, .. },
                ..
            } => Some(*truncations),
            _ => None,
        };
        outputs.iter().filter_map(truncations).collect()
    };
    assert_eq!(numbered(&outputs), [FIRST_TRUNCATIONS + 1]);
    // A second one before the first was done.
    let outputs = resize(&mut cluster, OTHER, ino, 5);
    assert_eq!(truncations(&outputs).first().map(|cut| cut.0), Some(5));
    assert_eq!(numbered(&outputs), [FIRST_TRUNCATIONS + 2]);
}

#[test]
fn who_asks_whether_the_data_objects_have_followed_is_told_when_they_have() {
    let (mut cluster, ino) = cluster();
    let followed = |cluster: &mut Cluster| {
        let step = ask(cluster, WRITER, Request::Followed(op::Followed { ino }));
        match &step.outputs[..] {
            [Output::Answer { result, .. }] => result.clone(),
            other => panic!("{other:?}"),
        }
    };
    let truncations_of = |reply| match reply {
        Ok(Reply::Inode(inode)) => inode.truncations,
        other => panic!("{other:?}"),
    };
    assert_eq!(truncations_of(followed(&mut cluster)), FIRST_TRUNCATIONS);
    let outputs = resize(&mut cluster, OTHER, ino, 10);
    assert_eq!(followed(&mut cluster), Err(Refusal::TryAgain));
    done(&mut cluster, &outputs);
    assert_eq!(
        truncations_of(followed(&mut cluster)),
        FIRST_TRUNCATIONS + 1
    );
}

#[test]
fn a_cut_that_comes_while_the_last_is_reported_is_done_too() {
    let (mut cluster, ino) = cluster();
    let first = resize(&mut cluster, OTHER, ino, 100);
    let [(100, ticket)] = truncations(&first)[..] else {
        panic!("{first:?}");
    };
    let set = SetAttr {
        size: Some(10),
        ..SetAttr::default()
    };
    let again = cluster.request_by(OTHER, 0, Request::SetAttr(op::SetAttr { ino, set }));
    let reply = DataReply::Done;
    let step = cluster.batch(0, vec![again, Input::DataDone { ticket, reply }]);
    assert_eq!(answer(&step.outputs), None, "it is not cut yet");
    let after = done(&mut cluster, &step.outputs);
    assert_eq!(answer(&after).map(|(inode, _)| inode.attr.size), Some(10));
}

/// A client that has it open may write to it, and is to find nothing there that was cut away.
#[test]
fn a_file_that_lost_its_name_while_it_was_cut_is_cut_and_goes_when_it_is_closed() {
    let (mut cluster, ino) = cluster();
    let open = Request::Open(op::Open {
        ino,
        access: 6,
        truncate: false,
        data: false,
    });
    ask(&mut cluster, OTHER, open);
    let cut = resize(&mut cluster, OTHER, ino, 10);
    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name("file"),
    });
    let step = ask(&mut cluster, OTHER, unlink);
    recalled(&mut cluster, step);
    // The first request is lost with this process.
    let again = cluster.restart(0).outputs;
    assert_eq!(sizes(&again), sizes(&cut));
    let reopen = Request::Reopen(op::Reopen {
        opens: vec![(ino, 1)],
    });
    ask(&mut cluster, OTHER, reopen);
    done(&mut cluster, &again);
    let getattr = Request::GetAttr(op::GetAttr { ino });
    match cluster.call(0, getattr.clone()) {
        Ok(Reply::Inode(inode)) => assert_eq!((inode.attr.size, inode.attr.nlink), (10, 0)),
        other => panic!("{other:?}"),
    }
    cluster.pass(2 * SESSION_TIMEOUT);
    assert!(cluster.call(0, getattr.clone()).is_ok(), "it is open");
    let release = Request::Release(op::Release { inos: vec![ino] });
    let closed = ask(&mut cluster, OTHER, release);
    let is_removal = |output: &Output| {
        matches!(
            output,
            Output::Data {
                request: DataRequest::Remove { .. },
                ..
            }
        )
    };
    assert!(closed.outputs.iter().any(is_removal), "{closed:?}");
    assert_eq!(cluster.call(0, getattr), Err(FsError::Stale.into()));
}

#[test]
fn a_file_that_gets_its_first_name_while_a_cut_is_pending_is_cut() {
    let (mut cluster, _) = cluster();
    let unnamed = Request::CreateUnnamed(op::CreateUnnamed {
        dir: Ino::ROOT,
        at: Position(77),
        mode: 0o644,
        umask: 0,
        may_be_named: true,
    });
    let ino = match cluster.call(0, unnamed) {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    };
    ask(&mut cluster, WRITER, Request::Stripe(op::Stripe { ino }));
    assert_eq!(wrote(&mut cluster, ino, MIB, FIRST_TRUNCATIONS).size, MIB);
    let cut = resize(&mut cluster, WRITER, ino, 10);
    assert!(!truncations(&cut).is_empty());
    let linked = ask(&mut cluster, WRITER, link(Ino::ROOT, "named", ino));
    let outputs = recalled(&mut cluster, linked);
    let is_named =
        |output: &Output| matches!(output, Output::Answer { result, .. } if result.is_ok());
    assert!(outputs.iter().any(is_named), "{outputs:?}");
    let again = cluster.restart(0).outputs;
    assert_eq!(sizes(&again), sizes(&cut));
    done(&mut cluster, &again);
    cluster.pass(2 * SESSION_TIMEOUT);
    match cluster.call(0, Request::GetAttr(op::GetAttr { ino })) {
        Ok(Reply::Inode(inode)) => assert_eq!((inode.attr.size, inode.attr.nlink), (10, 1)),
        other => panic!("{other:?}"),
    }
}
