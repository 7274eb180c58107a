//! Trains posteriors on devices of other processes and machines.
//!
//! ```text
//! several-machines --serve 127.0.0.1:3001
//! several-machines --on ws://127.0.0.1:3001,ws://127.0.0.1:3002 --method vifa
//! ```
//!
//! A server computes for whoever reaches its port and has its token. Nothing is encrypted: use a network that is trusted, or a
//! tunnel.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program talks to a person"
)]

mod across;
mod each;
mod task;

use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn::remote::RemoteHost;
use burn::server::{RemoteServer, TokenAuthorizer, WebSocketTransport};
use burn::tensor::Device;
use burn_bayes::SwagConfig;
use burn_bayes::methods::IvonConfig;
use burn_bayes::prelude::*;
use burn_bayes_examples::Arguments;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let names = [
        "serve", "on", "token", "method", "epochs", "steps", "seed", "out",
    ];
    let arguments = Arguments::read(&names)?;
    let token: String = arguments.get("token", "not a secret".into())?;
    let address: String = arguments.get("serve", String::new())?;
    if !address.is_empty() {
        return serve(&address, token);
    }
    let on: String = arguments.get("on", "cpu,cpu".into())?;
    let devices = on.split(',').map(|name| device(name, &token));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let folder: PathBuf = arguments.get("out", "several-machines".into())?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (epochs, seed) = (arguments.get("epochs", 20)?, arguments.get("seed", 0)?);
    let method: String = arguments.get("method", "vifa".into())?;
    let run = across::Run {
        names: on.split(',').collect(),
        devices: &devices,
        folder: &folder,
        epochs,
        seed,
    };
    match method.as_str() {
        "vifa" => {
            let vifa = VifaConfig::new().with_accumulation(devices.len());
            saved(&run.train(vifa)?, &folder)
        }
        "swag" => saved(&run.train(SwagConfig::new())?, &folder),
        "ivon" => saved(&run.train(IvonConfig::new())?, &folder),
        "ensemble" => saved(&each::ensemble(&devices, &folder, epochs, seed)?, &folder),
        "chains" => saved(
            &each::chains(&devices, arguments.get("steps", 400)?, seed)?,
            &folder,
        ),
        other => Err(format!(
            "--method {other} is not known; use vifa, swag, ivon, ensemble or chains"
        )
        .into()),
    }
}

// ANCHOR: serve
/// Lends this machine's processor until the process ends.
fn serve(address: &str, token: String) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    println!("serving at ws://{}", listener.local_addr()?);
    let server = RemoteServer::new([Device::flex()]);
    let server = server.with_authorizer(TokenAuthorizer::new(token)?);
    Ok(server.serve(WebSocketTransport::from_listener(listener))?)
}
// ANCHOR_END: serve

// ANCHOR: device
/// `cpu`, or the device of a server.
fn device(name: &str, token: &str) -> Result<Device, String> {
    if name == "cpu" {
        return Ok(Device::flex());
    }
    let host = RemoteHost::websocket(name).with_credential(token);
    let device = Device::remote_options(&host).init();
    device.map_err(|error| format!("{name}: {error}"))
}
// ANCHOR_END: device

/// Writes the posterior, and says how it predicts.
fn saved<P: Posterior>(posterior: &P, folder: &Path) -> Result<(), Box<dyn Error>> {
    let file = folder.join("posterior");
    posterior.save(&file)?;
    // The file is read again on this machine, wherever the posterior was trained.
    let posterior = P::load(&file, &Device::flex())?;
    let (accuracy, nll) = task::test_scores(posterior)?;
    println!(
        "accuracy {accuracy:.4}, negative log-likelihood {nll:.4}; the posterior is in {}",
        file.display()
    );
    Ok(())
}
