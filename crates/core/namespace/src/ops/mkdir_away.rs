//! Mkdir_away: the plan of a mkdir by what its session has chosen. The home gives the directory the number that the session
//! has given it, which it took of the home before. It is done on a disk without room, too, as its program was answered.

use super::mkdir::{plan, policy};
use super::{Checked, Choices, Execute, Mutation};
use crate::records::PartsRecord;
use crate::{Context, Plan, Stop, Txn, View};
use pandofs_api::op;
use pandofs_placement::DirPolicy;
use pandofs_types::{FsError, LeaseKey};

impl Execute for op::MkdirAway {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let (plan, parts) = chosen(self, view, cx)?;
        Ok(Checked {
            plan: Some(plan),
            adapts: matches!(policy(view, &parts), DirPolicy::Adaptive(_)),
        })
    }

    /// As of a mkdir.
    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (plan, parts) = chosen(self, &txn.view(), cx)?;
        txn.put_parts(self.mkdir.dir, &parts);
        Ok(Mutation::Plan(plan))
    }

    fn touches(&self, view: &View<'_>, choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        self.mkdir.touches(view, choices)
    }
}

/// The plan by the session's choices in place of the record's.
fn chosen(
    away: &op::MkdirAway,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<(Plan, PartsRecord), Stop> {
    let choices = cx.choices.of_session(away.time, away.random, away.placing);
    let cx = Context {
        choices: &choices,
        ..*cx
    };
    let (plan, parts) = plan(&away.mkdir, view, &cx, Some(away.ino))?;
    let home = away.ino.birth_shard();
    let leads_there = plan.steps.iter().any(|(shard, _)| *shard == home);
    match leads_there && home != view.shard {
        true => Ok((plan, parts)),
        false => Err(FsError::Invalid.into()),
    }
}
