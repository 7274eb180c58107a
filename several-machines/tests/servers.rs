//! Two servers on this machine, each a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use burn::tensor::Device;
use burn_bayes::posterior::{Mixture, Posterior, SamplePosterior};
use burn_bayes::{FactorPosterior, Noise};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_several-machines");

/// A server, which ends with the test.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["--serve", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim()
            .strip_prefix("serving at ")
            .expect("an address")
            .to_string();
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program(on: &str, folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM)
        .args(["--on", on, "--out"])
        .arg(folder)
        .args(arguments)
        .output();
    output.unwrap()
}

fn succeed(on: &str, folder: &Path, arguments: &[&str]) {
    let output = program(on, folder, arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Both servers, as on the command line.
fn addresses(servers: &[Server; 2]) -> String {
    servers
        .each_ref()
        .map(|server| server.url.clone())
        .join(",")
}

/// The largest difference of two lists of numbers, relative to the largest of them.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let most = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let size = most(&mut expected.iter().map(|value| value.abs()));
    assert!(size > 0.0, "there is something to compare");
    most(&mut found.iter().zip(expected).map(|(a, b)| (a - b).abs())) / size
}

/// A draw of the posterior in a folder: mean, factors and variances have a part in it.
fn draw<P: Posterior>(folder: &Path) -> Vec<f32> {
    let posterior = P::load(&folder.join("posterior"), &Device::flex()).unwrap();
    let draw = posterior
        .sampler()
        .unwrap()
        .draws(Noise::new(7), 1)
        .unwrap();
    draw.into_data().iter::<f32>().collect()
}

/// What two servers make of these arguments, and what two replicas in one process do.
fn both<P: Posterior>(arguments: &[&str]) -> [Vec<f32>; 2] {
    let servers = [Server::start(), Server::start()];
    [&*addresses(&servers), "cpu,cpu"].map(|on| {
        let folder = TempDir::new().unwrap();
        succeed(on, folder.path(), arguments);
        draw::<P>(folder.path())
    })
}

#[test]
fn trainings_across_servers_give_the_posterior_of_one_process() {
    for method in ["vifa", "swag", "ivon"] {
        let [found, expected] = both::<FactorPosterior>(&["--method", method, "--epochs", "3"]);
        let difference = difference(&found, &expected);
        assert!(difference < 1e-4, "{method}: {difference}");
    }
}

/// Whichever of the two it is: the first also keeps the weights.
#[test]
fn a_lost_server_is_named_and_the_training_goes_on_from_its_checkpoint() {
    let arguments = ["--method", "vifa", "--epochs", "8"];
    let expected = {
        let folder = TempDir::new().unwrap();
        succeed("cpu,cpu", folder.path(), &arguments);
        draw::<FactorPosterior>(folder.path())
    };
    for lost in 0..2 {
        let mut servers = [Server::start(), Server::start()];
        let folder = TempDir::new().unwrap();
        let mut running = Command::new(PROGRAM)
            .args(["--on", &addresses(&servers), "--out"])
            .arg(folder.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines();
        let epochs = lines
            .map_while(Result::ok)
            .filter(|line| line.contains("epoch"));
        // The line of the whole training, and those of two epochs: the checkpoint of the first one is written.
        assert_eq!(epochs.take(3).count(), 3);
        servers[lost].process.kill().unwrap();
        let output = running.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains("error: the training stopped after epoch"),
            "{message}"
        );
        let lost_one = format!("because {} does not answer", servers[lost].url);
        assert!(message.contains(&lost_one), "{lost}: {message}");

        // The other server keeps its connection to the lost one, so that another address is needed.
        servers[lost] = Server::start();
        let resumed = program(&addresses(&servers), folder.path(), &arguments);
        let said = String::from_utf8_lossy(&resumed.stdout);
        assert!(
            resumed.status.success(),
            "{}",
            String::from_utf8_lossy(&resumed.stderr)
        );
        assert!(!said.contains("epoch   1,"), "it began again: {said}");
        let difference = difference(&draw::<FactorPosterior>(folder.path()), &expected);
        assert!(difference < 1e-4, "{difference}");
    }
}

#[test]
fn fits_on_servers_are_members_of_a_mixture() {
    let arguments = ["--method", "ensemble", "--epochs", "3"];
    let [found, expected] = both::<Mixture<FactorPosterior>>(&arguments);
    // Here the training is compiled, on servers it is not.
    let difference = difference(&found, &expected);
    assert!(difference < 1e-2, "{difference}");
}

/// Chains are chaotic, so that only their first steps are the same up to rounding.
#[test]
fn chains_on_servers_are_those_of_one_process() {
    let [found, expected] = both::<SamplePosterior>(&["--method", "chains", "--steps", "20"]);
    let difference = difference(&found, &expected);
    assert!(difference < 1e-2, "{difference}");
}

#[test]
fn a_server_that_does_not_answer_or_refuses_is_named() {
    let server = Server::start();
    let folder = TempDir::new().unwrap();
    let refused = program(&server.url, folder.path(), &["--token", "another"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(
        message.contains(&server.url) && message.contains("credential"),
        "{message}"
    );

    let url = server.url.clone();
    drop(server);
    let unreachable = program(&url, folder.path(), &[]);
    let message = String::from_utf8_lossy(&unreachable.stderr);
    assert_eq!(unreachable.status.code(), Some(1), "{message}");
    assert!(
        message.contains(&url) && message.contains("cannot be reached"),
        "{message}"
    );
}
