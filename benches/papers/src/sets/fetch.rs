//! Downloads of the named data sets; nothing else in the workspace uses the network.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use burn_bayes_data::{persist, temporary_beside};
use burn_bayes_tabular::files::{Entry, at, make_folder};
use burn_bayes_tabular::{Result, TabularError};
use sha2::{Digest, Sha256};
use ureq::Agent;

use super::named_sets::{NamedFile, NamedSet, hexadecimal};

/// Timeout for each response or read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Downloads named data sets into a folder, and verifies each file by its SHA-256.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    root: PathBuf,
    mirror: Option<String>,
    agent: Agent,
}

/// The result of a [`Fetcher`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetched {
    /// The folder of the data set.
    pub(super) folder: PathBuf,
    /// Number of files downloaded.
    pub(super) downloaded: usize,
    /// Number of files already present.
    pub(super) present: usize,
}

impl Fetcher {
    /// Downloads into `root` from the public mirrors.
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .build();
        Self {
            root: root.into(),
            mirror: None,
            agent: config.into(),
        }
    }

    /// Uses a mirror instead of the public ones: an address with the same file layout as the folder.
    #[must_use]
    pub(super) fn with_mirror(self, address: impl Into<String>) -> Self {
        Self {
            mirror: Some(address.into()),
            ..self
        }
    }

    /// Downloads the missing files of a data set; `on_file` is called before each. Complete files are kept, and partial files
    /// are removed.
    pub(super) fn fetch(
        &self,
        set: &NamedSet,
        mut on_file: impl FnMut(&NamedFile),
    ) -> Result<Fetched> {
        let missing = set.missing(&self.root)?;
        for file in &missing {
            on_file(file);
            let result = self.download(file, &self.addresses(set, file));
            result.map_err(|failure| match failure {
                Failure::Here(error) => error,
                Failure::There(failures) => self.no_mirror(set, file, &failures),
            })?;
        }
        Ok(Fetched {
            folder: set.folder(&self.root),
            downloaded: missing.len(),
            present: set.files().count() - missing.len(),
        })
    }

    fn addresses(&self, set: &NamedSet, file: &NamedFile) -> Vec<String> {
        match &self.mirror {
            Some(mirror) => vec![format!("{}/{}", mirror.trim_end_matches('/'), file.path)],
            None => set
                .mirrors
                .iter()
                .map(|mirror| format!("{mirror}{}", file.name()))
                .collect(),
        }
    }

    fn no_mirror(&self, set: &NamedSet, file: &NamedFile, failures: &str) -> TabularError {
        let message = format!(
            "{}: no mirror sent this file ({failures}); without a network, download the {} files of `{}` \
             from {} elsewhere and copy them into {}",
            file.path,
            set.files().count(),
            set.name,
            set.mirrors.join(" or "),
            set.folder(&self.root).display(),
        );
        TabularError::System(io::Error::other(message))
    }

    /// Tries the addresses in order.
    fn download(&self, file: &NamedFile, addresses: &[String]) -> Result<(), Failure> {
        let mut failures = Vec::new();
        for address in addresses {
            match self.download_from(file, address) {
                Err(Failure::There(failure)) => failures.push(format!("{address}: {failure}")),
                other => return other,
            }
        }
        Err(Failure::There(failures.join("; ")))
    }

    fn download_from(&self, file: &NamedFile, address: &str) -> Result<(), Failure> {
        let path = self.root.join(file.path);
        let mut response = self.agent.get(address).call().map_err(Failure::there)?;
        let mut body = response.body_mut().as_reader();
        make_folder(path.parent().unwrap_or(&path)).map_err(Failure::Here)?;
        let unfinished = temporary_beside(&path);
        let mut unfinished = unfinished.map_err(|error| Failure::here(&path, error))?;
        // Registered, so that an interruption removes the unfinished file.
        let entry = Entry::of(unfinished.path());
        let (mut hasher, mut count) = (Sha256::new(), 0);
        let mut piece = vec![0; 1 << 16];
        loop {
            let length = body.read(&mut piece).map_err(Failure::there)?;
            if length == 0 {
                break;
            }
            count += length as u64;
            if count > file.bytes {
                return Err(Failure::there(format_args!(
                    "more than {} bytes",
                    file.bytes
                )));
            }
            hasher.update(&piece[..length]);
            unfinished
                .write_all(&piece[..length])
                .map_err(|error| Failure::here(&path, error))?;
        }
        if count < file.bytes {
            return Err(Failure::there(format_args!(
                "{count} of {} bytes",
                file.bytes
            )));
        }
        let found = hexadecimal(hasher);
        if found != file.sha256 {
            return Err(Failure::there(format_args!(
                "SHA-256 {found}, not {}",
                file.sha256
            )));
        }
        drop(entry);
        persist(unfinished, &path).map_err(|error| Failure::here(&path, error))
    }
}

/// Why a download failed.
#[derive(Debug)]
enum Failure {
    /// A local error, which another mirror would not fix.
    Here(TabularError),
    /// An error of the network or the mirror.
    There(String),
}

impl Failure {
    fn here(path: &Path, error: io::Error) -> Self {
        Self::Here(at(path)(error))
    }

    fn there(message: impl fmt::Display) -> Self {
        Self::There(message.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use super::*;

    const FILE: NamedFile = NamedFile {
        path: "folder/greeting.txt",
        bytes: 12,
        // The checksum of "hello, world".
        sha256: "09ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b",
    };

    /// Answers connections on the loopback device one by one, then returns the requested paths.
    fn serve(answers: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let answer = |answer: Vec<u8>| {
                let (mut stream, _) = listener.accept().unwrap();
                let path = requested(&stream);
                stream.write_all(&answer).unwrap();
                path
            };
            answers.into_iter().map(answer).collect()
        });
        (address, thread)
    }

    fn requested(stream: &TcpStream) -> String {
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        lines.find(String::is_empty).unwrap();
        first.split(' ').nth(1).unwrap().to_string()
    }

    fn answer(status: &str, length: Option<usize>, body: &str) -> Vec<u8> {
        let length = length.map_or(String::new(), |length| {
            format!("Content-Length: {length}\r\n")
        });
        format!("HTTP/1.1 {status}\r\n{length}Connection: close\r\n\r\n{body}").into_bytes()
    }

    fn good() -> Vec<u8> {
        answer("200 OK", Some(12), "hello, world")
    }

    /// A fetcher that ignores proxies of the environment.
    fn fetcher(root: &Path) -> Fetcher {
        let agent = Agent::config_builder().proxy(None).build().into();
        Fetcher {
            agent,
            ..Fetcher::new(root)
        }
    }

    fn files_below(folder: &Path) -> usize {
        std::fs::read_dir(folder).map_or(0, |entries| entries.count())
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_right() {
        let root = tempfile::tempdir().unwrap();
        for body in [good(), answer("200 OK", None, "hello, world")] {
            let (address, server) = serve(vec![body]);
            let address = format!("{address}/mirror/greeting.txt");
            fetcher(root.path()).download(&FILE, &[address]).unwrap();
            assert_eq!(server.join().unwrap(), ["/mirror/greeting.txt"]);
            assert!(FILE.is_in(root.path()).unwrap());
            assert_eq!(files_below(&root.path().join("folder")), 1);
        }
    }

    #[test]
    fn whatever_is_wrong_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        for (case, bytes, expected) in [
            (
                "wrong checksum",
                answer("200 OK", Some(12), "hello, wurld"),
                "SHA-256 ",
            ),
            ("truncated body", answer("200 OK", Some(12), "hello"), ""),
            (
                "truncated body of no stated length",
                answer("200 OK", None, "hello"),
                "5 of 12 bytes",
            ),
            (
                "longer body",
                answer("200 OK", None, "hello, world!"),
                "more than 12 bytes",
            ),
            ("no such file", answer("404 Not Found", Some(0), ""), "404"),
            ("not http", b"220 smtp ready\r\n".to_vec(), ""),
        ] {
            let (address, server) = serve(vec![bytes]);
            let failure = fetcher(root.path()).download(&FILE, std::slice::from_ref(&address));
            match failure.unwrap_err() {
                Failure::There(message) => {
                    assert!(message.starts_with(&address), "{case}: {message}");
                    assert!(message.contains(expected), "{case}: {message}");
                }
                Failure::Here(error) => panic!("{case}: {error}"),
            }
            server.join().unwrap();
            assert_eq!(files_below(&root.path().join("folder")), 0, "{case}");
        }
    }

    #[test]
    fn the_next_mirror_is_asked() {
        let root = tempfile::tempdir().unwrap();
        // A port that was free a moment ago refuses connections.
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let (address, server) = serve(vec![answer("200 OK", Some(12), "hello, wurld"), good()]);
        let addresses = [
            format!("http://{closed}/"),
            format!("{address}/a"),
            format!("{address}/b"),
        ];
        fetcher(root.path()).download(&FILE, &addresses).unwrap();
        assert_eq!(server.join().unwrap(), ["/a", "/b"]);
    }

    #[test]
    fn without_a_network_the_message_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let fetcher = fetcher(root.path()).with_mirror(format!("http://{closed}"));
        let set = NamedSet::find("mnist").unwrap();
        let mut heard = Vec::new();
        let error = fetcher
            .fetch(set, |file| heard.push(file.path))
            .unwrap_err();
        assert!(matches!(error, TabularError::System(_)), "{error}");
        assert_eq!(heard.len(), 1);
        let message = error.to_string();
        for part in [
            &format!("http://{closed}/mnist/"),
            "download the 4 files of `mnist` from https://",
            &root.path().join("mnist").display().to_string(),
        ] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_not_the_networks_fault() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(
            root.path().join("folder"),
            "a file in the place of the folder",
        )
        .unwrap();
        let (address, server) = serve(vec![good()]);
        let failure = fetcher(root.path()).download(&FILE, &[address.clone(), address]);
        assert!(matches!(
            failure.unwrap_err(),
            Failure::Here(TabularError::System(_))
        ));
        assert_eq!(server.join().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_is_there_is_kept_or_refused() {
        let root = tempfile::tempdir().unwrap();
        let set = NamedSet::find("energy").unwrap();
        let file = set.files().next().unwrap();
        let path = root.path().join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, b"mine").unwrap();
        // No server is needed: a file with wrong content is found before any request.
        let error = fetcher(root.path())
            .with_mirror("http://127.0.0.1:9")
            .fetch(set, |_| {});
        assert!(matches!(error.unwrap_err(), TabularError::Data(_)));
        assert_eq!(std::fs::read(path).unwrap(), b"mine");
    }
}
