//! `papers fetch` from a mirror on the loopback device: the right files, or none and a helpful message.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use tempfile::{TempDir, tempdir};

use crate::papers;

const SET: &str = "energy";

/// A file of the set.
struct NamedFile {
    sha256: &'static str,
    bytes: u64,
    path: &'static str,
}

fn files() -> Vec<NamedFile> {
    let lines = include_str!("../../src/sets/named_files.txt").lines();
    let file = |line: &'static str| {
        let [sha256, bytes, path] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        NamedFile {
            sha256,
            bytes: bytes.parse().unwrap(),
            path,
        }
    };
    let of_set = |file: &NamedFile| file.path.starts_with("uci_regression/energy/");
    lines.map(file).filter(of_set).collect()
}

/// The mirror's answer for the file of a path.
type Answer = Box<dyn Fn(&str, TcpStream) + Send>;

/// Answers all requests until the test ends. Returns the address.
fn mirror(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            lines.find(String::is_empty).unwrap();
            let path = first.split(' ').nth(1).unwrap().trim_start_matches('/');
            answer(path, stream);
        }
    });
    address
}

fn head(status: &str, length: u64) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
}

fn length(path: &str) -> u64 {
    let of_path = |file: &NamedFile| file.path == path;
    files().into_iter().find(of_path).unwrap().bytes
}

/// A file with the right length and wrong bytes.
fn zeros(path: &str, mut stream: TcpStream) {
    let body = vec![0; length(path) as usize];
    stream
        .write_all(head("200 OK", length(path)).as_bytes())
        .unwrap();
    stream.write_all(&body).unwrap();
}

/// The program, without a proxy of the environment.
fn fetch(place: &TempDir, address: &str) -> assert_cmd::Command {
    let mut command = papers(place, &format!("fetch {SET} --data data"));
    command
        .env("BURN_BAYES_MIRROR", address)
        .env("NO_PROXY", "*");
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// The exit code and the message.
fn refused(place: &TempDir, address: &str) -> (i32, String) {
    let output = fetch(place, address).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!message.contains("panicked"), "{message}");
    (output.status.code().unwrap_or(-1), message)
}

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| {
        if path.is_dir() {
            below(&path)
        } else {
            vec![path]
        }
    });
    files.collect()
}

#[test]
fn other_bytes_are_refused_with_both_checksums() {
    let place = tempdir().unwrap();
    let (code, message) = refused(&place, &mirror(Box::new(zeros)));
    let expected = files()[0].sha256;
    assert_eq!(code, 1, "{message}");
    let (_, found) = message.split_once("SHA-256 ").unwrap();
    let found = &found[..expected.len()];
    assert!(
        found.chars().all(|digit| digit.is_ascii_hexdigit()) && found != expected,
        "{message}"
    );
    assert!(message.contains(expected), "{message}");
    assert_eq!(
        below(&place.path().join("data")),
        [""; 0].map(PathBuf::from)
    );
}

#[test]
fn without_the_file_the_message_says_how_to_place_it_by_hand() {
    let place = tempdir().unwrap();
    let missing = mirror(Box::new(|_, mut stream| {
        stream
            .write_all(head("404 Not Found", 0).as_bytes())
            .unwrap();
    }));
    // A port that was just free refuses connections.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (address, word) in [(missing, "404"), (format!("http://{closed}"), "refused")] {
        let (code, message) = refused(&place, &address);
        assert_eq!(code, 1, "{message}");
        let count = files().len();
        let (first, folder) = (files()[0].path, "data/uci_regression/energy");
        for part in [
            word,
            &address,
            first,
            &format!("download the {count} files of `{SET}` from https://"),
            &format!("into {folder}"),
        ] {
            assert!(
                message.to_lowercase().contains(&part.to_lowercase()),
                "no {part} in: {message}"
            );
        }
        assert_eq!(
            below(&place.path().join("data")),
            [""; 0].map(PathBuf::from)
        );
    }
}

/// Announces a file and sends half of it.
fn send_half(path: &str, stream: &mut TcpStream) {
    stream
        .write_all(head("200 OK", length(path)).as_bytes())
        .unwrap();
    stream
        .write_all(&vec![0; length(path) as usize / 2])
        .unwrap();
}

#[test]
fn half_a_file_is_no_file() {
    let place = tempdir().unwrap();
    let (code, message) = refused(
        &place,
        &mirror(Box::new(|path, mut stream| send_half(path, &mut stream))),
    );
    assert_eq!(code, 1, "{message}");
    assert!(message.contains(files()[0].path), "{message}");
    assert_eq!(
        below(&place.path().join("data")),
        [""; 0].map(PathBuf::from)
    );
}

/// A mirror that sends half of a file, says so, and stops.
fn stalling() -> (String, Receiver<TcpStream>) {
    let (sender, receiver) = channel();
    let address = mirror(Box::new(move |path, mut stream| {
        send_half(path, &mut stream);
        sender.send(stream).unwrap();
    }));
    (address, receiver)
}

#[cfg(target_os = "linux")]
mod ends {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A transfer of which half has arrived.
    fn half_done(place: &TempDir) -> (Child, TcpStream) {
        let (address, half_sent) = stalling();
        // It hears every signal, also those that this process ignores.
        let child = Command::new("env")
            .arg("--default-signal")
            .arg(assert_cmd::cargo::cargo_bin("papers"))
            .args(["fetch", SET, "--data", "data", "--mirror", &address])
            .current_dir(place.path())
            .env("NO_PROXY", "*")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stream = half_sent.recv().unwrap();
        let start = Instant::now();
        let has_some = |path: &PathBuf| path.metadata().is_ok_and(|file| file.len() > 0);
        while !below(&place.path().join("data")).iter().any(has_some) {
            assert!(
                start.elapsed() < Duration::from_secs(300),
                "nothing happens"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        (child, stream)
    }

    #[test]
    fn a_transfer_that_is_killed_leaves_no_name() {
        let place = tempdir().unwrap();
        let (mut child, stream) = half_done(&place);
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stream);
        let left = below(&place.path().join("data"));
        let is_hidden = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(".unfinished-")
        };
        assert!(left.iter().all(is_hidden), "{left:?}");
    }

    #[test]
    fn a_transfer_that_is_interrupted_leaves_nothing() {
        let place = tempdir().unwrap();
        let (child, stream) = half_done(&place);
        let id = child.id().to_string();
        let status = Command::new("kill").args(["-s", "INT", "--", &id]).status();
        assert!(status.unwrap().success());
        let output = child.wait_with_output().unwrap();
        drop(stream);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{message}");
        assert_eq!(
            below(&place.path().join("data")),
            [""; 0].map(PathBuf::from)
        );
    }
}

/// `cargo xtask test` skips it without the folder of the data sets.
mod needs_data {
    use burn_bayes_testing::data_folder;

    use super::*;

    #[test]
    fn a_set_comes_from_a_mirror_of_ones_own() {
        let data = data_folder();
        let place = tempdir().unwrap();
        let address = mirror(Box::new(move |path, mut stream| {
            let body = std::fs::read(data.join(path)).unwrap();
            stream
                .write_all(head("200 OK", body.len() as u64).as_bytes())
                .unwrap();
            stream.write_all(&body).unwrap();
        }));
        let output = fetch(&place, &address).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        let count = files().len();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains(&format!("{count} files downloaded, 0 already present")),
            "{said}"
        );
        assert_eq!(below(&place.path().join("data")).len(), count);
        // The option takes precedence over the environment, and existing files are not requested.
        let mut again = fetch(&place, &address);
        let output = again
            .args(["--mirror", "http://127.0.0.1:9"])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains(&format!("0 files downloaded, {count} already present")),
            "{said}"
        );
    }
}
