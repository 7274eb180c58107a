//! Every task and the order in which `ci` runs them: the cheapest check that can fail comes first.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::process::{Step, cargo, is_available};
use crate::{Outcome, book, tables, tidy, workspace};

/// One task: what the command line calls it and what it does.
pub(crate) struct Task {
    /// The word after `cargo xtask`.
    pub(crate) name: &'static str,
    /// The flags it takes.
    pub(crate) flags: &'static [&'static str],
    about: &'static str,
    run: fn(&Request) -> Outcome,
}

/// A task's surroundings and its part of the command line.
pub(crate) struct Request {
    root: PathBuf,
    flags: Vec<String>,
    /// What stood after `--`, handed to the test program.
    rest: Vec<String>,
}

impl Request {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }
}

/// All tasks, in the order in which the help lists them.
pub(crate) const TASKS: &[Task] = &[
    Task {
        name: "ci",
        flags: &["--skip-tests"],
        about: "all stages from fmt to findings, stopping at the first failure",
        run: ci,
    },
    Task {
        name: "fmt",
        flags: &[],
        about: "is every file formatted? (`cargo fmt` formats them)",
        run: fmt,
    },
    Task {
        name: "clippy",
        flags: &[],
        about: "lints of every target, warnings denied",
        run: clippy,
    },
    Task {
        name: "tidy",
        flags: &[],
        about: "the house rules that no other tool knows",
        run: |request| tidy::check(&request.root),
    },
    Task {
        name: "test",
        flags: &["--wgpu", "--cuda", "--ndarray"],
        about: "all tests on the CPU, or the integration suite on another device; skips tests without data",
        run: test,
    },
    Task {
        name: "formats",
        flags: &[],
        about: "the tests of Parquet and Arrow files, which are read with a feature that is off by default",
        run: formats,
    },
    Task {
        name: "machines",
        flags: &[],
        about: "training on devices of other processes: a package of its own, which compiles Burn once more",
        run: machines,
    },
    Task {
        name: "miri",
        flags: &[],
        about: "the kernels with pointers under Miri: is anything undefined? (a nightly toolchain with miri)",
        run: miri,
    },
    Task {
        name: "doctest",
        flags: &[],
        about: "the examples in the documentation",
        run: doctest,
    },
    Task {
        name: "doc",
        flags: &[],
        about: "the API documentation, warnings denied",
        run: doc,
    },
    Task {
        name: "package",
        flags: &[],
        about: "can every crate be packed for the registry?",
        run: package,
    },
    Task {
        name: "book",
        flags: &[],
        about: "the book, into book/book",
        run: |request| book::build(&request.root),
    },
    Task {
        name: "tables",
        flags: &[],
        about: "the tables of settings and scores in the book and the README, from the code",
        run: |request| tables::write(&request.root),
    },
    Task {
        name: "examples",
        flags: &[],
        about: "every example, run at its smallest size",
        run: examples,
    },
    Task {
        name: "findings",
        flags: &[],
        about: "the papers' experiments at reduced settings: do their findings hold? (needs the data sets)",
        run: findings,
    },
    Task {
        name: "golden",
        flags: &[],
        about: "regenerate the golden values of the tests (Python 3 with numpy, scipy, scikit-learn, arviz, mapie, relplot)",
        run: golden,
    },
    Task {
        name: "deny",
        flags: &[],
        about: "licences, sources, duplicate and vulnerable dependencies (cargo-deny)",
        run: deny,
    },
];

/// The stages of `ci`, in order.
const CI: [&str; 12] = [
    "fmt", "clippy", "tidy", "test", "formats", "miri", "doctest", "doc", "package", "book",
    "examples", "findings",
];

/// Runs the task that the command line names.
pub(crate) fn dispatch(arguments: &[String]) -> Outcome {
    let Some((name, arguments)) = arguments.split_first() else {
        println!("{}", help());
        return Ok(());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{}", help());
        return Ok(());
    }
    let task = task(name).ok_or_else(|| format!("there is no task `{name}`\n{}", help()))?;
    let divider = arguments.iter().position(|argument| argument == "--");
    let (flags, rest) = arguments.split_at(divider.unwrap_or(arguments.len()));
    if let Some(unknown) = flags
        .iter()
        .find(|flag| !task.flags.contains(&flag.as_str()))
    {
        return Err(format!(
            "`{name}` does not know `{unknown}`; it takes {:?}",
            task.flags
        ));
    }
    (task.run)(&Request {
        root: workspace::root(),
        flags: flags.to_vec(),
        rest: rest.iter().skip(1).cloned().collect(),
    })
}

fn task(name: &str) -> Option<&'static Task> {
    TASKS.iter().find(|task| task.name == name)
}

fn help() -> String {
    let mut text = String::from("usage: cargo xtask <task> [flags] [-- arguments of the tests]\n");
    for task in TASKS {
        text.push_str(&format!("\n  {:<9} {}", task.name, task.about));
        if !task.flags.is_empty() {
            text.push_str(&format!("\n            {}", task.flags.join(" ")));
        }
    }
    text
}

fn ci(request: &Request) -> Outcome {
    let mut lines = Vec::new();
    for name in CI {
        if name == "test" && request.has("--skip-tests") {
            lines.push(format!("{name:<9} skipped (--skip-tests)"));
            continue;
        }
        let task = task(name).expect("every stage of ci is a task");
        let started = Instant::now();
        let outcome = (task.run)(&Request {
            root: request.root.clone(),
            flags: Vec::new(),
            rest: Vec::new(),
        });
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        let line = format!(
            "{name:<9} {word:<6} {:>7.1} s{}",
            started.elapsed().as_secs_f64(),
            skipped(name, &request.root)?
        );
        println!("ci: {line}");
        lines.push(line);
        if let Err(message) = outcome {
            return Err(format!("ci stopped at `{name}`: {message}"));
        }
    }
    println!("\nci passed:\n  {}", lines.join("\n  "));
    Ok(())
}

/// What a stage left out because data sets or packages of Python are missing, for its line in the summary.
fn skipped(stage: &str, root: &Path) -> Result<String, String> {
    match stage {
        "test" => Ok(match (data_folder(root), has_python()) {
            (Some(_), true) => String::new(),
            (Some(_), false) => "  skipped: tests that need Python".into(),
            (None, true) => "  skipped: tests that need data sets".into(),
            (None, false) => {
                "  skipped: tests that need data sets, and those that need Python".into()
            }
        }),
        "findings" => {
            let names = skipped_findings(&findings_folder(root)?);
            Ok(match names.len() {
                0 => String::new(),
                count => format!(
                    "  skipped: {count} experiments without data sets ({})",
                    names.join(", ")
                ),
            })
        }
        _ => Ok(String::new()),
    }
}

/// The experiments that `papers` skipped, from the folder of its results.
fn skipped_findings(folder: &Path) -> Vec<String> {
    let names = std::fs::read_to_string(folder.join("skipped.txt")).unwrap_or_default();
    names.lines().map(String::from).collect()
}

fn findings_folder(root: &Path) -> Result<PathBuf, String> {
    Ok(workspace::target_folder(root)?.join("findings"))
}

fn fmt(request: &Request) -> Outcome {
    cargo(&request.root, &["fmt", "--all", "--", "--check"]).run()
}

fn clippy(request: &Request) -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets"];
    cargo(&request.root, &arguments)
        .arguments(&["--", "-D", "warnings"])
        .run()
}

/// The devices of the integration suite that need a build of their own.
const DEVICES: [&str; 3] = ["wgpu", "cuda", "ndarray"];

fn test(request: &Request) -> Outcome {
    let devices: Vec<&str> = DEVICES
        .into_iter()
        .filter(|device| request.has(&format!("--{device}")))
        .collect();
    for device in &devices {
        test_on_device(request, device)?;
    }
    if !devices.is_empty() {
        return Ok(());
    }
    let data = data_folder(&request.root);
    if is_available("cargo", &["nextest", "--version"]) {
        let profile: &[&str] = match (&data, has_python()) {
            (Some(_), true) => &[],
            (Some(_), false) => &["--profile", "no-python"],
            (None, true) => &["--profile", "no-data"],
            (None, false) => &["--profile", "no-data-no-python"],
        };
        let run = cargo(&request.root, &["nextest", "run", "--workspace"]);
        return with_data(run.arguments(profile), data.as_deref())
            .arguments(&request.rest)
            .run();
    }
    println!("cargo-nextest is not installed: using cargo test");
    let kinds = ["test", "--workspace", "--lib", "--bins", "--tests"];
    with_data(cargo(&request.root, &kinds), data.as_deref())
        .divided(&libtest_arguments(
            data.is_some(),
            has_python(),
            &request.rest,
        ))
        .run()
}

/// Whether the tests of the reader in Python and of ONNX files can run.
fn has_python() -> bool {
    is_available("python3", &["-c", "import numpy, onnxruntime"])
}

/// The folder of the data sets, if it is there: `$BURN_BAYES_DATA`, or one beside the repository.
fn data_folder(root: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from);
    let folder = root.join(given.unwrap_or_else(|| "../shared/data".into()));
    folder.canonicalize().ok()
}

fn with_data(step: Step, folder: Option<&Path>) -> Step {
    match folder {
        Some(folder) => step.env("BURN_BAYES_DATA", &folder.to_string_lossy()),
        None => step,
    }
}

/// What a test program of Rust's own gets: it counts the tests that are left out as filtered.
fn libtest_arguments(has_data: bool, has_python: bool, rest: &[String]) -> Vec<String> {
    let mut arguments = rest.to_vec();
    if !has_data {
        println!("no data sets: skipping the tests that need them (set BURN_BAYES_DATA)");
        arguments.extend(["--skip", "needs_data::"].map(String::from));
    }
    if !has_python {
        println!("no python3 with numpy and onnxruntime: skipping the tests that need it");
        arguments.extend(["--skip", "needs_python::"].map(String::from));
    }
    arguments
}

/// Tests of rules that do not depend on the device, by thousands of small operations, each of which a GPU waits for.
/// `BURN_BAYES_GRAMMAR_CASES` includes them.
const HOST_TESTS: [&str; 31] = [
    "on_cpu::",
    "onnx::",
    "fits::",
    "stages::",
    "model_state::",
    "verdict::",
    "trainer::",
    "warnings::",
    "silent_training::",
    "_of_any_shape",
    "_up_to_ten_decades",
    "one_weight_with_a_million_observations_has_its_variance",
    "laplace::many_rows_leave_the_variances_that_they_should",
    "laplace::rounding_of_large_sums_is_no_curvature",
    "laplace::a_regression_has_the_prior_of_the_evidence_by_default",
    "laplace::a_classifier_that_fits_its_rows_has_a_prior_whose_draws_are_near",
    "a_change_that_nothing_shows_is_an_error_after_at_most_fifteen_uses",
    "a_number_in_a_batch_that_changes_later_is_refused_at_once_or_recorded_anew",
    "batches_of_another_element_type_have_their_own_recording",
    "grammar::",
    "computed_weights::",
    "::stays_finite_and_learns",
    "posterior::draws_have_the_mean_and_the_covariance_of_the_gaussian",
    "posterior::a_mixture_draws_from_its_components_in_proportion",
    "laplace::probit_probabilities_are_those_of_many_draws",
    "learner::a_closed_form_step_learns_with_the_learners_rate",
    "learner::large_steps_leave_the_last_iterate_far_from_the_average",
    "recovery::",
    "has_the_exact_moments_of_a_linear_regression",
    "sampling::a_run_resumed_at_any_step_ends_with_the_same_samples",
    "graph_gradients::jacobians_of_large_layers_are_computed_in_pieces",
];

/// The same suite, and the program's, with another device. One process keeps the device's compiled
/// kernels between tests, hence `cargo test`; a folder of its own keeps the CPU build from being rebuilt.
fn test_on_device(request: &Request, device: &str) -> Outcome {
    let folder = workspace::target_folder(&request.root)?;
    let folder = format!("{}-{device}", folder.display());
    let packages: &[&str] = match device {
        "ndarray" => &["burn-bayes-suite"], // the oracle of Burn's own, which the program has not
        _ => &["burn-bayes-suite", "burn-bayes-cli"],
    };
    let features = packages.iter().map(|package| format!("{package}/{device}"));
    let features = features.collect::<Vec<_>>().join(",");
    let chosen: Vec<&str> = packages
        .iter()
        .flat_map(|package| ["-p", package])
        .collect();
    let data = data_folder(&request.root);
    let mut arguments = libtest_arguments(data.is_some(), has_python(), &request.rest);
    if device != "ndarray" && std::env::var_os("BURN_BAYES_GRAMMAR_CASES").is_none() {
        let skipped = HOST_TESTS.into_iter().flat_map(|name| ["--skip", name]);
        arguments.extend(skipped.map(String::from));
        // Two threads wait for one device, which takes longer than one after the other.
        arguments.push("--test-threads=1".into());
    }
    with_data(
        cargo(&request.root, &["test", "--test", "it"]),
        data.as_deref(),
    )
    .arguments(&chosen)
    .arguments(&["--features", &features, "--target-dir", &folder])
    .divided(&arguments)
    .env("BURN_BAYES_TEST_DEVICE", device)
    .run()
}

/// The tests of the one crate that knows the feature. A folder of its own keeps the other builds from being rebuilt.
fn formats(request: &Request) -> Outcome {
    let folder = workspace::target_folder(&request.root)?;
    let folder = format!("{}-formats", folder.display());
    let packages = ["test", "-p", "burn-bayes-data", "--features", "parquet"];
    cargo(&request.root, &packages)
        .arguments(&["--lib", "--test", "it", "--target-dir", &folder])
        .divided(&["--skip", "needs_data::"].map(String::from))
        // Optimising the decoders would take longer than the tests do.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .run()
}

/// The package of training on several machines, with its own lock file: what it depends on is in nothing that is published.
fn machines(request: &Request) -> Outcome {
    let folder = workspace::target_folder(&request.root)?;
    let folder = format!("{}-machines", folder.display());
    let package = ["--manifest-path", "several-machines/Cargo.toml"];
    cargo(&request.root, &["fmt", "--check"])
        .arguments(&package)
        .run()?;
    cargo(&request.root, &["test", "--locked"])
        .arguments(&package)
        .arguments(&["--target-dir", &folder])
        .divided(&request.rest)
        .run()
}

/// The tests of the kernels that hand pointers to another library, and those of inputs without elements.
const MIRI_TESTS: [&str; 2] = ["product::", "total::"];

/// Miri interprets the tests, and stops at anything that the language does not define.
fn miri(request: &Request) -> Outcome {
    let miri = ["run", "nightly", "cargo", "miri"];
    if !is_available("rustup", &[&miri[..], &["--version"]].concat()) {
        println!("skipped: miri is not installed (rustup +nightly component add miri rust-src)");
        return Ok(());
    }
    Step::new("rustup", &request.root)
        .arguments(&miri)
        .arguments(&["test", "-p", "burn-bayes-kernels", "--lib"])
        .divided(&MIRI_TESTS.map(String::from))
        // Most of the time would go to the backtraces of refusals.
        .env("RUST_BACKTRACE", "0")
        // Rayon's threads outlive the tests, its queues turn integers into pointers, and it counts processors.
        .env(
            "MIRIFLAGS",
            "-Zmiri-tree-borrows -Zmiri-ignore-leaks -Zmiri-permissive-provenance -Zmiri-disable-isolation",
        )
        .run()
}

fn doctest(request: &Request) -> Outcome {
    cargo(&request.root, &["test", "--workspace", "--doc"]).run()
}

fn doc(request: &Request) -> Outcome {
    cargo(&request.root, &["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// Packs the crates without building what was packed: that would compile Burn once more for each.
fn package(request: &Request) -> Outcome {
    let packages = workspace::packages(&workspace::text_files(&request.root)?);
    let published = packages.iter().filter(|package| package.is_published);
    let names: Vec<&str> = published
        .flat_map(|package| ["-p", &*package.name])
        .collect();
    let options = ["package", "--offline", "--no-verify", "--allow-dirty"];
    cargo(&request.root, &options).arguments(&names).run()
}

/// Builds all examples at once with the features of the whole workspace (one by one they would
/// rebuild Burn with others), then runs each.
fn examples(request: &Request) -> Outcome {
    let packages = workspace::packages(&workspace::text_files(&request.root)?);
    let names = workspace::examples(&request.root, &packages);
    if names.is_empty() {
        println!("examples: none yet");
        return Ok(());
    }
    cargo(&request.root, &["build", "--workspace", "--examples"]).run()?;
    let folder = workspace::target_folder(&request.root)?.join("debug/examples");
    for name in names {
        let file = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if !file.is_file() {
            return Err(format!(
                "example `{name}` was not built: does it ask for a feature that is off by default?"
            ));
        }
        let started = Instant::now();
        Step::new(&file, &request.root)
            .env("BURN_BAYES_SMOKE", "1")
            .run()?;
        let seconds = started.elapsed().as_secs_f64();
        println!("examples: {name} ok in {seconds:.1} s");
    }
    Ok(())
}

/// In a new folder, because what it finds there it does not compute again. Without the folder of the data sets, most
/// experiments are skipped, which the summary says; a folder that lacks some of them is an error.
fn findings(request: &Request) -> Outcome {
    cargo(&request.root, &["build", "--workspace", "--bins"]).run()?;
    let target = workspace::target_folder(&request.root)?;
    let out = findings_folder(&request.root)?;
    if out.exists() {
        std::fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let name = format!("papers{}", std::env::consts::EXE_SUFFIX);
    let papers = Step::new(target.join("debug").join(name), &request.root);
    let data = data_folder(&request.root);
    let skips: &[&str] = match data {
        Some(_) => &[],
        None => &["--skip-missing"],
    };
    with_data(papers, data.as_deref())
        .arguments(&["all", "--quick", "--out"])
        .arguments(&[out.to_string_lossy()])
        .arguments(skips)
        .run()
}

fn golden(request: &Request) -> Outcome {
    let python = Path::new("python3");
    let modules = "numpy scipy sklearn arviz mapie relplot";
    let check = format!("import {}", modules.replace(' ', ", "));
    if !is_available("python3", &["-c", &check]) {
        return Err(format!(
            "golden values need python3 with the modules {modules}: \
             pip install numpy scipy scikit-learn mapie relplot 'arviz<1'"
        ));
    }
    let folder = request.root.join("xtask/golden");
    let scripts = workspace::stems(&folder, "py");
    if scripts.is_empty() {
        println!("golden: there is no script in xtask/golden");
    }
    for name in scripts {
        println!("golden: {name}");
        let script = folder.join(format!("{name}.py"));
        Step::new(python, &request.root)
            .arguments(&[script.to_string_lossy()])
            .run()?;
    }
    Ok(())
}

/// Advisories need the network. Where their database cannot be fetched this says so and checks
/// the rest, which needs none.
fn deny(request: &Request) -> Outcome {
    if !is_available("cargo", &["deny", "--version"]) {
        return Err("cargo-deny is not installed: cargo install cargo-deny --locked".into());
    }
    let offline_checks = ["deny", "check", "licenses", "bans", "sources"];
    cargo(&request.root, &offline_checks).run()?;
    let fetched = cargo(&request.root, &["deny", "fetch", "db"]).run();
    if fetched.is_err() {
        println!("skipped: advisories (their database could not be fetched)");
        return Ok(());
    }
    cargo(&request.root, &["deny", "check", "advisories"]).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_of_ci_is_a_task() {
        for name in CI {
            assert!(task(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_in_the_help() {
        let help = help();
        for (index, task) in TASKS.iter().enumerate() {
            assert!(help.contains(task.name));
            assert!(
                TASKS[..index]
                    .iter()
                    .all(|earlier| earlier.name != task.name)
            );
        }
    }

    #[test]
    fn an_unknown_task_and_an_unknown_flag_are_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(dispatch(&words("no-such-task")).is_err());
        assert!(
            dispatch(&words("tidy --wgpu"))
                .unwrap_err()
                .contains("--wgpu")
        );
    }

    #[test]
    fn tests_are_left_out_without_what_they_need() {
        let rest = ["name".to_string()];
        assert_eq!(libtest_arguments(true, true, &rest), rest);
        let without = ["name", "--skip", "needs_data::"];
        assert_eq!(libtest_arguments(false, true, &rest), without);
        let without = ["name", "--skip", "needs_python::"];
        assert_eq!(libtest_arguments(true, false, &rest), without);
    }

    #[test]
    fn experiments_without_data_are_in_the_summary() {
        let folder = std::env::temp_dir().join(format!("xtask-findings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(skipped_findings(&folder).is_empty());
        std::fs::write(folder.join("skipped.txt"), "E5\nE6\n").unwrap();
        assert_eq!(skipped_findings(&folder), ["E5", "E6"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_device_has_its_flag() {
        let flags = task("test").unwrap().flags;
        for device in DEVICES {
            assert!(flags.contains(&format!("--{device}").as_str()));
        }
    }
}
