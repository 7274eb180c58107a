//! Posterior files: what is read equals what was saved. Other files are refused without a panic, and no file
//! is half-written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::{Bytes, DType};
use burn_bayes::Error;
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{FORMAT_VERSION, FormKind};
use burn_bayes::{FactorPosterior, Posterior};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use tempfile::TempDir;

use crate::support::{bits, device, layout_of, matrix, normals, vector};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Safetensors,
    Burnpack,
}

pub(crate) const FORMATS: [Format; 2] = [Format::Safetensors, Format::Burnpack];

impl Format {
    /// A path of this format.
    pub(crate) fn path(self, folder: &Path, name: &str) -> PathBuf {
        folder.join(match self {
            Self::Safetensors => format!("{name}.safetensors"),
            Self::Burnpack => format!("{name}.bpk"),
        })
    }

    /// A file with any content, written without the library.
    pub(crate) fn write(self, contents: &Contents, path: &Path) {
        match self {
            Self::Safetensors => {
                let tensors: Vec<_> = contents
                    .tensors
                    .iter()
                    .map(|(name, dtype, shape, bytes)| {
                        let view = TensorView::new(*dtype, shape.clone(), bytes).unwrap();
                        (name.as_str(), view)
                    })
                    .collect();
                let metadata = Some(contents.metadata.clone());
                std::fs::write(path, safetensors::serialize(tensors, metadata).unwrap()).unwrap();
            }
            Self::Burnpack => {
                let tensors = contents.tensors.iter().map(|(name, dtype, shape, bytes)| {
                    let dtype = match dtype {
                        Dtype::F32 => DType::F32,
                        Dtype::F64 => DType::F64,
                        other => panic!("{other:?} is not used here"),
                    };
                    let bytes = Bytes::from_bytes_vec(bytes.clone());
                    burn_pack::Tensor::new(name.clone(), dtype, shape.clone(), None, bytes)
                });
                let mut writer = burn_pack::Writer::new(tensors.collect()).auto_extension(false);
                for (key, value) in &contents.metadata {
                    writer = writer.with_metadata(key, value);
                }
                writer.write_to_file(path).unwrap();
            }
        }
    }
}

/// The contents of a file, to be damaged.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) metadata: HashMap<String, String>,
    tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

impl Contents {
    /// A valid file: rank 2 over three weights and a bias.
    pub(crate) fn good() -> Self {
        let metadata = [
            ("form", "covariance".to_string()),
            ("layout", layout_of(&[("weight", 3), ("bias", 1)]).to_json()),
            ("format_version", FORMAT_VERSION.to_string()),
        ];
        let tensor = |name: &str, shape: &[usize], values: &[f32]| {
            (
                name.to_string(),
                Dtype::F32,
                shape.to_vec(),
                bytes_of(values),
            )
        };
        Self {
            metadata: metadata
                .into_iter()
                .map(|(key, value)| (key.to_string(), value))
                .collect(),
            tensors: vec![
                tensor("mean", &[4], &[1.0, 2.0, 3.0, 4.0]),
                tensor("factors", &[2, 4], &[0.5; 8]),
                tensor("diag", &[4], &[0.1, 0.2, 0.3, 0.4]),
            ],
        }
    }

    fn with_metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    fn without_metadata(mut self, key: &str) -> Self {
        self.metadata.remove(key);
        self
    }

    fn with_tensor(mut self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        self.tensors.retain(|tensor| tensor.0 != name);
        self.tensors
            .push((name.into(), Dtype::F32, shape.to_vec(), bytes_of(values)));
        self
    }

    fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|tensor| tensor.0 != name);
        self
    }
}

fn posterior(kind: FormKind, rank: usize) -> FactorPosterior {
    let layout = layout_of(&[("layer.weight", 6), ("layer.bias", 3)]);
    // All kinds of numbers: signed zero, the smallest, the largest.
    let mut mean = normals(1, 9);
    mean[..4].copy_from_slice(&[-0.0, f32::MIN_POSITIVE / 8.0, f32::MAX, -1.0e-30]);
    let mean = vector(&mean);
    let factors = (rank > 0).then(|| matrix(rank, 9, &normals(2, rank * 9)));
    let diagonal: Vec<f32> = normals(3, 9).iter().map(|value| value.exp()).collect();
    let diagonal = vector(&diagonal);
    match kind {
        FormKind::Covariance => FactorPosterior::covariance(layout, mean, factors, diagonal),
        FormKind::Precision => FactorPosterior::precision(layout, mean, factors, diagonal),
    }
    .unwrap()
}

/// A directory with one valid posterior.
pub(crate) fn saved(format: Format) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = format.path(directory.path(), "posterior");
    posterior(FormKind::Precision, 2).save(&path).unwrap();
    (directory, path)
}

pub(crate) fn load(path: &Path) -> Result<FactorPosterior, Error> {
    FactorPosterior::load(path, &device())
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_saved_is_read_bit_for_bit() {
    let directory = TempDir::new().unwrap();
    for format in FORMATS {
        for kind in [FormKind::Covariance, FormKind::Precision] {
            for rank in [0, 1, 4] {
                let before = posterior(kind, rank);
                let path = format.path(directory.path(), &format!("{kind:?}-{rank}"));
                before.save(&path).unwrap();
                let after = load(&path).unwrap();
                assert_eq!((after.kind(), after.rank()), (kind, rank));
                assert_eq!(after.layout(), before.layout());
                assert_eq!(bits(&after.mean()), bits(&before.mean()));
                assert_eq!(bits(&after.diagonal()), bits(&before.diagonal()));
                assert_eq!(
                    after.factors().map(|factors| bits(&factors)),
                    before.factors().map(|factors| bits(&factors))
                );
            }
        }
    }
    // Only the files themselves.
    assert_eq!(files(directory.path()).len(), 12);
}

#[test]
fn a_file_says_what_it_is() {
    let (_directory, path) = saved(Format::Safetensors);
    let bytes = std::fs::read(&path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = header.metadata().clone().unwrap();
    assert_eq!(metadata["form"], "precision");
    assert_eq!(metadata["format_version"], FORMAT_VERSION.to_string());
    let layout = Layout::from_json(&metadata["layout"]).unwrap();
    assert_eq!(
        layout,
        *layout_of(&[("layer.weight", 6), ("layer.bias", 3)])
    );
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("mean").unwrap().shape(), [9]);
    assert_eq!(file.tensor("factors").unwrap().shape(), [2, 9]);
    assert_eq!(file.tensor("diag").unwrap().shape(), [9]);
    assert_eq!(file.len(), 3);

    let (_directory, path) = saved(Format::Burnpack);
    let bytes = Bytes::from_bytes_vec(std::fs::read(&path).unwrap());
    let reader = burn_pack::Reader::from_bytes(bytes).unwrap();
    assert_eq!(reader.metadata()["form"], "precision");
    assert_eq!(reader.metadata()["layout"], metadata["layout"]);
}

#[test]
fn equal_posteriors_make_equal_files() {
    for format in FORMATS {
        let bytes = || {
            let (_directory, path) = saved(format);
            std::fs::read(path).unwrap()
        };
        let first = bytes();
        // Three keys in random order would agree this often with a probability of 1 in 5·10¹¹.
        for _ in 0..15 {
            assert_eq!(bytes(), first, "{format:?}");
        }
    }
}

#[test]
fn saving_replaces_a_file() {
    for format in FORMATS {
        let (directory, path) = saved(format);
        let other = posterior(FormKind::Covariance, 1);
        other.save(&path).unwrap();
        assert_eq!(load(&path).unwrap().kind(), FormKind::Covariance);
        assert_eq!(files(directory.path()).len(), 1);
    }
}

#[test]
fn what_is_no_posterior_is_refused_with_a_reason_and_the_path() {
    let nan = [1.0, f32::NAN, 3.0, 4.0];
    let other_dtype = {
        let mut contents = Contents::good();
        contents.tensors[0].1 = Dtype::F64;
        contents.tensors[0].3.extend([0; 16]);
        contents
    };
    let cases: [(Contents, &str); 20] = [
        (
            Contents::good().with_metadata("format_version", "2"),
            "format version 2",
        ),
        (
            Contents::good().with_metadata("format_version", "one"),
            "format version one",
        ),
        (
            Contents::good().without_metadata("format_version"),
            "no `format_version`",
        ),
        (Contents::good().without_metadata("layout"), "no `layout`"),
        (Contents::good().without_metadata("form"), "no `form`"),
        (
            Contents::good().with_metadata("form", "diagonal"),
            "form is `diagonal`",
        ),
        (
            Contents::good().with_metadata("layout", "{}"),
            "layout is not readable",
        ),
        (Contents::good().with_metadata("layout", "[]"), "no weights"),
        (
            Contents::good().with_metadata("layout", &layout_of(&[("weight", 5)]).to_json()),
            "`mean` has shape [4], but the layout requires [5]",
        ),
        (Contents::good().without_tensor("mean"), "`mean` is missing"),
        (Contents::good().without_tensor("diag"), "`diag` is missing"),
        (
            Contents::good().with_tensor("mean", &[2, 2], &[1.0; 4]),
            "`mean` has shape [2, 2], but the layout requires [4]",
        ),
        (
            Contents::good().with_tensor("factors", &[4, 2], &[1.0; 8]),
            "`factors` has shape [4, 2], but the layout requires [4, 4]",
        ),
        (
            Contents::good().with_tensor("factors", &[8], &[1.0; 8]),
            "`factors` has shape [8], but the layout requires [8, 4]",
        ),
        (
            Contents::good().with_tensor("mean", &[4], &nan),
            "mean is NaN at weight",
        ),
        (
            Contents::good().with_tensor("factors", &[1, 4], &nan),
            "factors is NaN at weight",
        ),
        (
            Contents::good().with_tensor("diag", &[4], &[1.0, 1.0, 1.0, -0.5]),
            "variance is -0.5 at bias",
        ),
        (
            Contents::good()
                .with_metadata("form", "precision")
                .with_tensor("diag", &[4], &[1.0, 1.0, 0.0, 1.0]),
            "precision is 0 at weight",
        ),
        (other_dtype, "mean is F64, not F32"),
        (
            Contents::good().with_tensor("offsets", &[1], &[1.0]),
            "`offsets` is not part of a posterior",
        ),
    ];
    let directory = TempDir::new().unwrap();
    for format in FORMATS {
        let path = format.path(directory.path(), "crafted");
        format.write(&Contents::good(), &path);
        assert_eq!(load(&path).unwrap().rank(), 2);
        for (contents, reason) in &cases {
            format.write(contents, &path);
            let error = load(&path).map(|_| ()).expect_err(reason);
            let message = error.to_string();
            assert!(
                error.is_storage()
                    && message.contains(reason)
                    && message.contains(path.to_str().unwrap()),
                "{format:?}: expected {reason}, got {message}"
            );
        }
    }
}

#[test]
fn a_posterior_over_other_parameters_is_told_apart() {
    for format in FORMATS {
        let (_directory, path) = saved(format);
        let loaded = load(&path).unwrap();
        let same = layout_of(&[("layer.weight", 6), ("layer.bias", 3)]);
        let difference = |layout: Arc<Layout>| layout.difference(loaded.layout());
        assert_eq!(difference(same), None);
        let wider = difference(layout_of(&[("layer.weight", 8), ("layer.bias", 3)]));
        let expected = "layer.weight is [8] in the model, [6] in the posterior";
        assert_eq!(wider.as_deref(), Some(expected));
        let turned = difference(layout_of(&[("layer.bias", 3), ("layer.weight", 6)]));
        assert!(turned.unwrap().contains("another order"));
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for format in FORMATS {
        let (_directory, path) = saved(format);
        let whole = std::fs::read(&path).unwrap();
        // Every position near the ends, and every seventh position in between.
        let near = |len: usize| len < 64 || len + 16 > whole.len() || len.is_multiple_of(7);
        for len in (0..whole.len()).filter(|&len| near(len)) {
            std::fs::write(&path, &whole[..len]).unwrap();
            let error = load(&path).map(|_| ()).expect_err("a cut file");
            assert!(error.is_storage(), "{format:?} cut at {len}: {error}");
        }
    }
}

#[test]
fn other_files_are_refused() {
    let directory = TempDir::new().unwrap();
    for format in FORMATS {
        let path = format.path(directory.path(), "file");
        for contents in [
            &b""[..],
            b"PK\x03\x04 not a posterior",
            &[0xff; 4096],
            &[0; 4096],
        ] {
            std::fs::write(&path, contents).unwrap();
            let error = load(&path).map(|_| ()).unwrap_err();
            assert!(error.is_storage(), "{error}");
        }
        // The other format, and a missing file.
        let (_other, other) = saved(match format {
            Format::Safetensors => Format::Burnpack,
            Format::Burnpack => Format::Safetensors,
        });
        std::fs::copy(other, &path).unwrap();
        assert!(load(&path).map(|_| ()).unwrap_err().is_storage());
        let missing = format.path(directory.path(), "missing");
        let error = load(&missing).map(|_| ()).unwrap_err();
        assert!(
            error.is_storage() && error.to_string().contains("cannot be read"),
            "{error}"
        );
    }
}

#[test]
fn a_place_that_cannot_be_written_keeps_nothing_half_done() {
    for format in FORMATS {
        let directory = TempDir::new().unwrap();
        let posterior = posterior(FormKind::Covariance, 1);
        // A missing directory, and the path of an existing directory.
        let occupied = format.path(directory.path(), "occupied");
        std::fs::create_dir(&occupied).unwrap();
        std::fs::write(occupied.join("inside"), "kept").unwrap();
        for path in [
            format.path(&directory.path().join("missing"), "file"),
            occupied.clone(),
        ] {
            let error = posterior.save(&path).unwrap_err();
            assert!(
                error.is_storage() && error.to_string().contains("cannot be written"),
                "{error}"
            );
        }
        assert_eq!(files(directory.path()).len(), 1, "{format:?}");
        assert_eq!(files(&occupied), ["inside"]);
    }
}
