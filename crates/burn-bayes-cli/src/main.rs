//! The `burn-bayes` program: predictions with uncertainty from CSV files, without writing Rust.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the only crate that writes to the terminal"
)]

mod commands;
mod console;
mod interruption;
mod settings;
mod warnings;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::console::say;
use burn_bayes_tabular::error::TabularError;

/// Takes a fifth off the time of training steps of small networks, which allocate hundreds of small tensors.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bayesian training of small networks on tabular data, with predictive uncertainty.
#[derive(Debug, Parser)]
#[command(name = "burn-bayes", version, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
    /// Print results, warnings and errors, but neither progress nor notes
    #[arg(long, global = true)]
    quiet: bool,
}

fn main() -> ExitCode {
    // Burn loads an optimiser's state to its default device, which may be a GPU that does not exist.
    // The CPU always exists, and the first step moves the state to the device of the parameters.
    // SAFETY: no other thread has been started.
    #[cfg(feature = "flex")]
    unsafe {
        std::env::set_var("BURN_DEVICE", "flex");
    }
    warnings::show();
    // Clap exits with code 2 on a usage error, as does `TabularError::Usage`.
    let matches = Program::command().get_matches();
    let program = Program::from_arg_matches(&matches);
    let program = program.unwrap_or_else(|error| error.format(&mut Program::command()).exit());
    console::set_quiet(program.quiet);
    match interruption::catch().and_then(|()| program.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, which is not an error.
        Err(TabularError::System(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(TabularError::Interrupted(_)) => interruption::end(),
        Err(failure) => {
            let message = settings::error_message(&failure, &Program::command(), &matches);
            say(format_args!("error: {message}"));
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn options_do_not_collide() {
        Program::command().debug_assert();
    }

    /// The calls of the program in the code blocks and inline code of a page, without its name.
    fn calls(page: &str) -> Vec<&str> {
        let mut is_fenced = false;
        let mut codes = Vec::new();
        for line in page.lines() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if is_fenced {
                codes.push(line);
            } else {
                codes.extend(line.split('`').skip(1).step_by(2));
            }
        }
        let calls = codes.into_iter().filter_map(|code| {
            let by_cargo = code.split_once("--bin burn-bayes -- ");
            by_cargo
                .map(|(_, call)| call)
                .or_else(|| code.strip_prefix("burn-bayes "))
        });
        calls.collect()
    }

    /// The first unknown command or option of a call.
    fn unknown_word<'a>(mut command: &clap::Command, call: &'a str) -> Option<&'a str> {
        let mut words = call.split_whitespace().take_while(|word| *word != "#");
        while command.has_subcommands() && !call.starts_with("--") {
            let word = words.next()?;
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None => return Some(word),
            }
        }
        let options = words.filter_map(|word| Some((word, word.strip_prefix("--")?)));
        let is_known = |option: &str| {
            let name = option.split('=').next();
            command.get_arguments().any(|argument| {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                argument.get_long() == name || aliases.into_iter().any(|one| Some(one) == name)
            })
        };
        let mut unknown = options.filter(|(_, option)| !is_known(option));
        unknown.next().map(|(word, _)| word)
    }

    #[test]
    fn calls_on_the_pages_name_what_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let chapters = std::fs::read_dir(root.join("book/src")).unwrap();
        let chapters = chapters.map(|entry| entry.unwrap().path());
        let pages = chapters.filter(|path| path.extension().is_some_and(|end| end == "md"));
        let mut program = Program::command();
        program.build();
        let mut count = 0;
        for page in pages.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&page).unwrap();
            for call in calls(&text) {
                let unknown = unknown_word(&program, call);
                assert_eq!(unknown, None, "{}: burn-bayes {call}", page.display());
                count += 1;
            }
        }
        assert!(count > 0);
    }

    #[test]
    fn an_unknown_word_of_a_call_is_found() {
        let page = "burn-bayes keeps\n`burn-bayes fitt`\n```\ncargo run --bin burn-bayes -- fit --epohcs 3\n```\n\
            `burn-bayes fit --lr=1 --epochs 3 # --x`, `burn-bayes data generate --help`\n";
        let mut program = Program::command();
        program.build();
        let unknown = calls(page)
            .into_iter()
            .map(|call| unknown_word(&program, call));
        let expected = [Some("fitt"), Some("--epohcs"), None, None];
        assert_eq!(unknown.collect::<Vec<_>>(), expected);
    }
}
