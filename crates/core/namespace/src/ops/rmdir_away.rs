//! Rmdir_away: the plan of a rmdir by what its session has chosen. The grant of the directory, which the session has, ends
//! with it at its home.

use super::remove::{self, Kind};
use super::{Checked, Execute, PlanAnswer};
use crate::touches::entry_key;
use crate::{Context, Stop, View};
use pandofs_api::{op, step};
use pandofs_types::{FsError, LeaseKey};

impl Execute for op::RmdirAway {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let choices = cx.choices.of_session(self.time, self.random, None);
        let cx = Context {
            choices: &choices,
            ..*cx
        };
        let holder = Some(step::Holder {
            session: cx.session,
            incarnation: self.home_incarnation,
        });
        let name = (self.rmdir.dir, &self.rmdir.name);
        let plan = remove::plan(view, &cx, name, Kind::Dir { holder })?;
        // The grant was lost, and others have put another directory there since.
        match plan.answer == (PlanAnswer::Removed { ino: self.ino }) {
            true => Ok(plan.into()),
            false => Err(FsError::Stale.into()),
        }
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.rmdir.dir, &self.rmdir.name)]
    }
}
