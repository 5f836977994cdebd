//! Texts that go with the figures of each workload.

use super::Bench;

pub(super) fn id(bench: Bench) -> &'static str {
    match bench {
        Bench::Macro1 => "live-macro1",
        Bench::Metarates => "live-metarates",
        Bench::Macro2 => "live-macro2",
    }
}

pub(super) fn title(bench: Bench) -> &'static str {
    match bench {
        Bench::Macro1 => "Macrobenchmark 1, live and modelled",
        Bench::Metarates => "One directory (metarates), live and modelled",
        Bench::Macro2 => "Macrobenchmark 2, live and modelled",
    }
}

/// Why live and modelled figures differ.
pub(super) fn why_they_differ(bench: Bench) -> &'static str {
    match bench {
        Bench::Macro1 => {
            "where they differ: in the model each server has a processor and a disk of its own and clients cost nothing but \
             their pause, while live servers and clients on one machine share its processors, so that more servers do not \
             help there and messages between them take what requests could use; live shards are more than servers, so that \
             two directories on different shards of one server take a distributed operation without a message between \
             machines; forced writes of all servers go to one disk"
        }
        Bench::Metarates => {
            "where they differ: in the model as many processors work on the directory as servers have partitions of it, while \
             live servers share those of one machine with the clients, so that a second live server takes processor time \
             rather than adds any, and more of them hardly change the rates; and the clock of a live run includes the time in which partitions split, which with few files is much of it, as \
             it is in the model. What changes and looks at attributes is not in the model of one directory"
        }
        Bench::Macro2 => {
            "where they differ: as with macrobenchmark 1; and the model opens a file with one request and knows no closing \
             of it, while live clients open, read or write and close, with the data on a disk that the logs share. The live \
             mix removes what the same client made, the model what was there; in both nobody else asks for it. Only the mix \
             is beside: what makes the name space before and removes it afterwards is macrobenchmark 1"
        }
    }
}
