//! The demo's command line. Decides nothing but what the words mean.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use lexopt::prelude::*;

use super::stage::{Stage, Transports};

/// Processes that make sense on one machine.
const NODES_MAX: usize = 32;

/// What `--help` prints.
pub(crate) fn help(transports: &Transports) -> String {
    let (built, default) = (names(transports.built), default_name(transports));
    let left_out: Vec<String> = transports
        .left_out
        .iter()
        .map(|left_out| format!("{} ({})", left_out.name, left_out.features))
        .collect();
    let left_out = match &left_out[..] {
        [] => String::new(),
        left_out => format!(".\n                    Built without: {}", left_out.join(", ")),
    };
    format!(
        "\
Counts the words of real files on a cluster of real processes, and loses one of them on the way.

Usage: demo [OPTIONS]

Options:
      --input PATH  count every regular file below PATH (default: the sources of the crates
                    that Cargo downloaded for this build, else this workspace)
      --nodes N     node processes to start, 1 to 32 (default 3). The reader counts for the majority
                    that outvotes a lost node, so that two nodes are enough to lose one
      --kill WHICH  oldest, youngest or none: the node to kill a third of the way in
                    (default oldest: the one that hosts the coordinator)
      --transport T {built}: what the nodes talk over
                    (default {default}){left_out}
      --dev-certs   certificates of an authority that is made for this run and forgotten after it. What the
                    transports with certificates always do here; a mistake with the others
      --json        end standard output with one line of JSON; everything else goes to
                    standard error
  -h, --help        print this

Exit code: 0 if the cluster's total equals the total of one thread that reads the same files,
1 if not or if the cluster failed, 2 for a mistake in the options, 130 if interrupted.
"
    )
}

fn names(stages: &[Stage]) -> String {
    let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    names.join(", ")
}

fn default_name(transports: &Transports) -> &'static str {
    transports.built.first().map_or("", |stage| stage.name)
}

/// Which node is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// The node that has been Up for longest.
    Oldest,
    /// The node that has been Up for shortest.
    Youngest,
    /// None.
    Nobody,
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) input: Option<PathBuf>,
    pub(crate) nodes: usize,
    pub(crate) kill: Kill,
    pub(crate) json: bool,
    /// A name of a [`Stage`].
    pub(crate) transport: String,
}

/// What one node process is told by the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeOptions {
    /// The name of the demo's [`Stage`].
    pub(crate) transport: String,
    pub(crate) cluster: String,
    /// Which of the demo's nodes it is, from 0.
    pub(crate) index: usize,
    pub(crate) root: PathBuf,
    /// The first node's address; none for the first node itself.
    pub(crate) seed: Option<String>,
}

/// What this process is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Run(Options),
    Node(NodeOptions),
}

/// The hidden subcommand that makes a process a node.
const NODE: &str = "node-process";

impl NodeOptions {
    /// The arguments that [`parse`] turns into this.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            NODE.into(),
            self.transport.clone().into(),
            self.cluster.clone().into(),
            self.index.to_string().into(),
            self.root.clone().into(),
        ];
        arguments.extend(self.seed.clone().map(OsString::from));
        arguments
    }

    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut text = || words.next()?.into_string().ok();
        let (transport, cluster, index) = (text()?, text()?, text()?.parse().ok()?);
        let root = PathBuf::from(words.next()?);
        let seed = words.next().and_then(|seed| seed.into_string().ok());
        Some(Self {
            transport,
            cluster,
            index,
            root,
            seed,
        })
    }
}

/// Reads the arguments, the program's name left out.
pub(crate) fn parse(arguments: Vec<OsString>, transports: &Transports) -> Result<Command, String> {
    if arguments.first().is_some_and(|first| first == NODE) {
        let node = NodeOptions::parse(arguments.into_iter().skip(1));
        return node
            .map(Command::Node)
            .ok_or_else(|| format!("`{NODE}` is for the demo's own use"));
    }
    let mut options = Options {
        input: None,
        nodes: 3,
        kill: Kill::Oldest,
        json: false,
        transport: default_name(transports).to_owned(),
    };
    let mut dev_certs = false;
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(|e| e.to_string())? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("json") => options.json = true,
            Long("dev-certs") => dev_certs = true,
            Long("transport") => {
                options.transport = transport(&parser.value().map_err(|e| e.to_string())?, transports)?;
            }
            Long("input") => options.input = Some(parser.value().map_err(|e| e.to_string())?.into()),
            Long("nodes") => options.nodes = nodes(parser.value().map_err(|e| e.to_string())?)?,
            Long("kill") => options.kill = kill(parser.value().map_err(|e| e.to_string())?)?,
            Short(_) | Long(_) | Value(_) => {
                return Err(format!("{}; try --help", argument.unexpected()));
            }
        }
    }
    if options.nodes == 1 && options.kill != Kill::Nobody {
        return Err("the only node cannot be killed: give --nodes 2 or more, or --kill none".into());
    }
    if dev_certs {
        has_certificates(&options.transport, transports)?;
    }
    Ok(Command::Run(options))
}

/// Certificates were asked for.
fn has_certificates(name: &str, transports: &Transports) -> Result<(), String> {
    let with = transports.built.iter().filter(|stage| stage.has_certificates);
    let with: Vec<Stage> = with.copied().collect();
    if with.iter().any(|stage| stage.name == name) {
        return Ok(());
    }
    let with = if with.is_empty() {
        "none in this build".to_owned()
    } else {
        names(&with)
    };
    Err(format!(
        "--dev-certs: `{name}` has no certificates; transports that do: {with}"
    ))
}

fn transport(value: &OsStr, transports: &Transports) -> Result<String, String> {
    let name = value.to_string_lossy();
    if let Some(stage) = transports.named(&name) {
        return Ok(stage.name.to_owned());
    }
    Err(match transports.command_for(&name) {
        Some(command) => format!("this program is built without `{name}`; with it: {command}"),
        None => format!(
            "--transport takes one of {}, not {value:?}",
            names(transports.built)
        ),
    })
}

fn nodes(value: OsString) -> Result<usize, String> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    let legal = number.filter(|number| (1..=NODES_MAX).contains(number));
    legal.ok_or_else(|| format!("--nodes takes a number from 1 to {NODES_MAX}, not {value:?}"))
}

fn kill(value: OsString) -> Result<Kill, String> {
    match value.to_str() {
        Some("oldest") => Ok(Kill::Oldest),
        Some("youngest") => Ok(Kill::Youngest),
        Some("none") => Ok(Kill::Nobody),
        Some(_) | None => Err(format!("--kill takes oldest, youngest or none, not {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::stage::LeftOut;
    use crate::hosts::Host;

    struct Nowhere;

    impl Host for Nowhere {
        type Adapter = quorate_tokio::Tokio;

        fn block_on<T>(_: impl Future<Output = T>) -> std::io::Result<T> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
    }

    const TRANSPORTS: Transports = Transports {
        built: &[
            Stage::plain::<Nowhere>("pipes", "pipes"),
            Stage::with_certificates::<Nowhere>("armoured-pipes", "pipes"),
        ],
        left_out: &[LeftOut {
            name: "drums",
            features: "wood,skin",
        }],
    };

    fn parse_words(words: &[&str]) -> Result<Command, String> {
        parse(words.iter().map(OsString::from).collect(), &TRANSPORTS)
    }

    #[test]
    fn without_arguments_three_nodes_run_and_the_oldest_is_killed() {
        let options = Options {
            input: None,
            nodes: 3,
            kill: Kill::Oldest,
            json: false,
            transport: "pipes".to_owned(),
        };
        assert_eq!(parse_words(&[]), Ok(Command::Run(options)));
    }

    #[test]
    fn mistakes_are_one_line() {
        let mistakes: [&[&str]; 12] = [
            &["--transport", "pigeons"],
            &["--transport"],
            &["--dev-certs"],
            &["--nodes", "0"],
            &["--nodes", "-1"],
            &["--nodes", "many"],
            &["--nodes", "33"],
            &["--nodes", "1"],
            &["--kill", "all"],
            &["--frobnicate"],
            &["surplus"],
            &["--input"],
        ];
        for words in mistakes {
            let error = parse_words(words).unwrap_err();
            assert!(!error.is_empty() && !error.contains('\n'), "{words:?}: {error}");
        }
        assert!(parse_words(&["--nodes", "1", "--kill", "none"]).is_ok());
        assert!(parse_words(&["--dev-certs", "--transport", "armoured-pipes"]).is_ok());
    }

    #[test]
    fn the_help_names_every_transport() {
        let help = help(&TRANSPORTS);
        for part in ["pipes, armoured-pipes", "(default pipes)", "drums (wood,skin)"] {
            assert!(help.contains(part), "{part} in {help}");
        }
    }

    #[test]
    fn what_is_left_out_is_refused_with_the_command_that_builds_it() {
        let said = parse_words(&["--transport", "drums"]).unwrap_err();
        let command = "cargo run --release --features wood,skin -- --transport drums";
        assert!(said.ends_with(command), "{said}");
    }

    #[test]
    fn a_node_process_reads_back_what_it_is_told() {
        for seed in [None, Some("127.0.0.1:2551".to_owned())] {
            let node = NodeOptions {
                transport: "pipes".into(),
                cluster: "demo-1".into(),
                index: 2,
                root: "/a b".into(),
                seed,
            };
            assert_eq!(parse(node.arguments(), &TRANSPORTS), Ok(Command::Node(node)));
        }
    }
}
