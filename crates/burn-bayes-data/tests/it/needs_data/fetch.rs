//! Named sets and the shared data: all checksums, and a whole download from the loopback device.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use burn_bayes_data::{Fetcher, NAMED_SETS, NamedFile, NamedSet, Transfer, read_presplit};
use burn_bayes_testing::data_folder;

#[test]
fn the_shared_files_have_the_checksums_of_the_table() {
    let data = data_folder();
    for set in NAMED_SETS {
        assert_eq!(set.missing(&data).unwrap(), [], "{}", set.name);
    }
}

/// Answers `count` requests with files below `root`.
fn serve(root: PathBuf, count: usize) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            lines.find(String::is_empty).unwrap();
            let path = first
                .split(' ')
                .nth(1)
                .unwrap()
                .trim_start_matches('/')
                .to_string();
            let body = std::fs::read(root.join(path)).unwrap();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ";
            write!(stream, "{head}{}\r\n\r\n", body.len()).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    (address, thread)
}

#[test]
fn a_set_comes_once() {
    let data = data_folder();
    let root = tempfile::tempdir().unwrap();
    let set = NamedSet::find("breast-cancer").unwrap();
    let files: Vec<NamedFile> = set.files().collect();
    let (address, server) = serve(data, files.len());
    let fetcher = Fetcher::new(root.path()).with_mirror(address);
    let (mut begun, mut whole) = (Vec::new(), Vec::new());
    let on_progress = |transfer: Transfer<'_>| {
        let is_somewhere = transfer.place.is_some_and(Path::is_file);
        assert!(transfer.bytes == 0 || is_somewhere);
        if !is_somewhere {
            begun.push(*transfer.file);
        }
        if transfer.bytes == transfer.file.bytes {
            whole.push(*transfer.file);
        }
    };
    let fetched = fetcher.fetch(set, on_progress).unwrap();
    assert_eq!((fetched.downloaded, fetched.present), (files.len(), 0));
    assert_eq!((&begun, &whole), (&files, &files));
    server.join().unwrap();
    // The mirror has stopped, and it is not contacted.
    let again = fetcher.fetch(set, |_| {}).unwrap();
    assert_eq!((again.downloaded, again.present), (0, files.len()));
    read_presplit(again.folder, "breast_cancer_scale").unwrap();
}
