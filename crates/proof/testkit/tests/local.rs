//! The model against a local file system: what Linux really does is what it says.

use pandofs_testkit::mount::Mounted;
use pandofs_testkit::op::callers;
use pandofs_testkit::{Config, Traits, check};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn linux_does_what_the_model_says() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let traits = Traits {
        callers: callers().len(),
        dir_size_is_entries: false,
        protected_hardlinks: true,
        // The clock that files get their times from moves with the timer, which may be late.
        clock_slack: Duration::from_millis(500),
        max_file_size: 8 << 30,
        times_only_advance: false,
        allocates: true,
        makes_unnamed: true,
        makes_whiteouts: true,
        refused_whiteouts_touch: true,
        inos_are_reused: true,
    };
    check(Config::from_environment(20_000), || {
        Mounted::new(place.path(), traits.clone())
    });
}
