//! Counts of the events that the tests are about, to show that they happened.

macro_rules! stats {
    ($($name:ident),* $(,)?) => {
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Stats {
            $(pub(crate) $name: u64,)*
        }

        impl Stats {
            pub(crate) fn add(&mut self, other: &Stats) {
                $(self.$name += other.$name;)*
            }

            pub(crate) fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

stats! {
    aborts,
    answers_after_the_end,
    commits,
    commits_by_the_coordinator,
    crashes,
    denials,
    messages_lost,
    messages_repeated,
    outcomes_before_requests,
    own_steps_found,
    presumed_aborts,
    recovered_by_abort,
    recovered_undecided,
    repeated_requests,
    requests_after_the_end,
    requests_below_the_horizon,
    retries,
    tails_lost,
    waits,
}
