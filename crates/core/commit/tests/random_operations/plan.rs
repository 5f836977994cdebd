//! Plan of one operation, drawn before it starts.

use crate::random::Random;
use pandofs_api::{FileBody, InodeReply, Step, StepResult, step};
use pandofs_types::{Attr, FileKind, Ino, ShardId, Time};

/// The steps of one operation, those that are only found on the way included.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its place in the list of plans.
    pub index: usize,
    pub coordinator: ShardId,
    /// How many of `steps` the request itself makes.
    pub initial: usize,
    pub steps: Vec<PlannedStep>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedStep {
    pub shard: ShardId,
    /// The key that it locks on its shard.
    pub key: u64,
    /// The steps that are found when this one is prepared.
    pub follow: Vec<usize>,
}

/// Keys of one shard; few, so that operations meet.
const KEYS: usize = 4;

impl Plan {
    pub(crate) fn draw(
        index: usize,
        coordinator: ShardId,
        shards: usize,
        random: &mut Random,
    ) -> Plan {
        let initial = random.between(1, 5);
        let mut steps = Vec::new();
        for _ in 0..initial {
            steps.push(draw_step(shards, random));
        }
        // One step at least is elsewhere.
        let elsewhere = random.below(initial);
        if steps.iter().all(|step| step.shard == coordinator) {
            let other = random.below(shards - 1) as u16;
            steps[elsewhere].shard = ShardId(if other < coordinator.0 {
                other
            } else {
                other + 1
            });
        }
        if random.percent(40) {
            for _ in 0..random.between(1, 4) {
                let found = steps.len();
                let by = random.below(found);
                steps[by].follow.push(found);
                steps.push(draw_step(shards, random));
            }
        }
        // Steps that are found though they are there already.
        if random.percent(20) {
            let (by, found) = (random.below(steps.len()), random.below(steps.len()));
            steps[by].follow.push(found);
        }
        Plan {
            index,
            coordinator,
            initial,
            steps,
        }
    }

    /// One step on every other shard and nothing found on the way.
    pub(crate) fn everywhere(index: usize, coordinator: ShardId, shards: usize) -> Plan {
        let steps: Vec<PlannedStep> = (0..shards as u16)
            .map(ShardId)
            .filter(|shard| *shard != coordinator)
            .map(|shard| PlannedStep {
                shard,
                key: 0,
                follow: vec![],
            })
            .collect();
        Plan {
            index,
            coordinator,
            initial: steps.len(),
            steps,
        }
    }

    /// Step `number` as the protocol carries it. The protocol does not look into steps, so any kind
    /// does that has room for the two numbers.
    pub(crate) fn step(&self, number: usize) -> (ShardId, Step) {
        let planned = &self.steps[number];
        let step = Step::HoldAncestors(step::HoldAncestors {
            from: Ino(planned.key),
            moving: Ino(self.index as u64),
            depth: number as u32,
        });
        (planned.shard, step)
    }

    pub(crate) fn follow(&self, number: usize) -> Vec<(ShardId, Step)> {
        self.steps[number]
            .follow
            .iter()
            .map(|&found| self.step(found))
            .collect()
    }
}

/// The plan and the number of the step in it.
pub(crate) fn identify(step: &Step) -> (usize, usize) {
    let Step::HoldAncestors(step::HoldAncestors { moving, depth, .. }) = step else {
        panic!("not a step of a plan: {step:?}");
    };
    (moving.0 as usize, *depth as usize)
}

/// The result that preparing the step hands to the others.
pub(crate) fn result_of(step: &Step) -> StepResult {
    let (plan, number) = identify(step);
    let attr = Attr {
        ino: Ino((plan * 1_000 + number) as u64),
        kind: FileKind::File,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Time(0),
        mtime: Time(0),
        ctime: Time(0),
        btime: Time(0),
        has_xattrs: false,
    };
    StepResult {
        inode: Some(Box::new(InodeReply {
            attr,
            body: FileBody::None,
            dir: None,
            truncations: 0,
        })),
        entry: None,
    }
}

fn draw_step(shards: usize, random: &mut Random) -> PlannedStep {
    PlannedStep {
        shard: ShardId(random.below(shards) as u16),
        key: random.below(KEYS) as u64,
        follow: vec![],
    }
}
