//! Models in ONNX files predict as they do here.
//!
//! The tests need `python3` with NumPy and ONNX Runtime, so they are in a module called `needs_python`; `cargo xtask test` skips it
//! without.

mod needs_python {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;

    use burn::module::{Module, ParamGroup};
    use burn::nn::attention::{
        MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask,
    };
    use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
    use burn::nn::pool::{
        AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, AvgPool2d, AvgPool2dConfig, MaxPool2d,
        MaxPool2dConfig,
    };
    use burn::nn::{
        BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig,
        Linear, LinearConfig, PaddingConfig2d,
    };
    use burn::tensor::activation::{leaky_relu, log_softmax, relu, sigmoid, softplus};
    use burn::tensor::{Device, Int, Tensor, TensorData};
    use burn_bayes::graph::{Layout, OnnxModel};
    use burn_bayes::likelihood::{Likelihood, Prediction};
    use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
    use burn_bayes::{Auto, FactorPosterior, Fit, Noise, Predictor, Supervised};
    use serde_json::{Value, json};

    use crate::support::{device, filled, normals, values};

    const DRAWS: usize = 5;
    const ROWS: [usize; 3] = [1, 3, 7];

    /// A tensor of inputs, as the script takes it.
    fn floats<const R: usize>(tensor: &Tensor<R>) -> Value {
        json!({"shape": tensor.dims().to_vec(), "type": "float32", "values": values(tensor)})
    }

    fn integers<const R: usize>(tensor: &Tensor<R, Int>) -> Value {
        let values: Vec<i64> = tensor.to_data().iter::<i64>().collect();
        json!({"shape": tensor.dims().to_vec(), "type": "int64", "values": values})
    }

    type Outputs = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

    /// The outputs of a file at batches, whose inputs have names.
    fn evaluated(file: &Path, batches: Vec<Value>) -> Vec<Outputs> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/onnx/run.py");
        let given = file.with_extension("json");
        std::fs::write(&given, Value::Array(batches).to_string()).unwrap();
        let output = Command::new("python3")
            .arg(script)
            .args([file, &given])
            .output()
            .expect("python3 runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let found: Vec<BTreeMap<String, Value>> = serde_json::from_slice(&output.stdout).unwrap();
        let read = |output: &Value| {
            let shape = serde_json::from_value(output["shape"].clone()).unwrap();
            let values = serde_json::from_value(output["values"].clone()).unwrap();
            (shape, values)
        };
        let batches = found.iter().map(|outputs| {
            let outputs = outputs.iter();
            let outputs = outputs.map(|(name, output)| (name.clone(), read(output)));
            outputs.collect()
        });
        batches.collect()
    }

    #[track_caller]
    fn assert_output<const R: usize>(outputs: &Outputs, name: &str, expected: &Tensor<R>) {
        let (shape, found) = &outputs[name];
        assert_eq!(shape, &expected.dims().to_vec(), "{name}");
        let expected = values(expected);
        for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let difference = (found - expected).abs();
            assert!(
                difference <= 1e-5 * (1.0 + expected.abs()),
                "{name} at {place}: {found} in the file, {expected} here"
            );
        }
    }

    /// A Gaussian over the parameters of a group, with wide correlated deviations.
    fn gaussian<M: Module>(model: &M, group: &ParamGroup) -> FactorPosterior {
        let layout = Layout::new(model, group).unwrap();
        let len = layout.len();
        let mean = layout.flatten(model).unwrap();
        let factors = Tensor::<1>::from_floats(&*normals(7, 2 * len), &device());
        let factors = factors.reshape([2, len]) * 0.1;
        let diagonal = Tensor::<1>::ones([len], &device()) * 0.01;
        let state = PointPosterior::of(model, group).unwrap();
        let state = state.state(Noise::new(0)).unwrap();
        FactorPosterior::covariance(layout.into(), mean, Some(factors), diagonal)
            .unwrap()
            .with_state(state)
    }

    /// The outputs of every draw in the file are those of the predictor, for several numbers of rows.
    #[track_caller]
    fn draws_agree<M: Module, P: Posterior, const R: usize>(
        predictor: &Predictor<M, P>,
        inputs: impl Fn(usize) -> Tensor<R>,
        forward: impl Fn(&M, Tensor<R>) -> Tensor<2>,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (file, mean) = (
            folder.path().join("model.onnx"),
            folder.path().join("mean.onnx"),
        );
        predictor
            .save_onnx_draws(&file, &inputs(2), DRAWS, &forward)
            .unwrap();
        predictor
            .save_onnx_mean(&mean, &inputs(2), &forward)
            .unwrap();
        let batches = ROWS.map(|rows| json!({"input": floats(&inputs(rows))}));
        let found = evaluated(&file, batches.to_vec());
        let of_mean = evaluated(&mean, batches.to_vec());
        for (number, rows) in ROWS.into_iter().enumerate() {
            let expected = predictor.map_draws(DRAWS, |model| forward(model, inputs(rows)));
            let expected: Tensor<3> = Tensor::stack(expected.unwrap(), 0);
            assert_output(&found[number], "outputs", &expected);
            let expected = forward(&predictor.mean_model().unwrap(), inputs(rows));
            assert_output(&of_mean[number], "outputs", &expected);
        }
    }

    fn inputs<const R: usize>(rows: usize, shape: [usize; R]) -> Tensor<R> {
        let mut shape = shape;
        shape[0] = rows;
        let count = shape.iter().product();
        let values = TensorData::new(normals(3, count), shape);
        Tensor::from_data(values, &device())
    }

    #[derive(Module, Debug)]
    struct Mlp {
        first: Linear,
        second: Linear,
        last: Linear,
    }

    impl Mlp {
        fn new(outputs: usize) -> Self {
            let model = Self {
                first: LinearConfig::new(4, 8).init(&device()),
                second: LinearConfig::new(8, 8).init(&device()),
                last: LinearConfig::new(8, outputs).init(&device()),
            };
            filled(model, 1, 0.4)
        }

        fn forward(&self, x: Tensor<2>) -> Tensor<2> {
            let hidden = softplus(self.first.forward(x), 1.0);
            let hidden = hidden.clone() * sigmoid(self.second.forward(hidden));
            self.last.forward(leaky_relu(hidden, 0.1))
        }
    }

    #[test]
    fn a_perceptron() {
        let model = Mlp::new(2);
        let posterior = gaussian(&model, &ParamGroup::all());
        let predictor = Predictor::new(model, posterior, Noise::new(4)).unwrap();
        draws_agree(&predictor, |rows| inputs(rows, [0, 4]), Mlp::forward);
    }

    #[test]
    fn a_posterior_over_the_last_layer() {
        let model = Mlp::new(2);
        let group = ParamGroup::from_predicate("last");
        let posterior = gaussian(&model, &group);
        let predictor = Predictor::new(model, posterior, Noise::new(4)).unwrap();
        draws_agree(&predictor, |rows| inputs(rows, [0, 4]), Mlp::forward);
    }

    /// The outputs of a file by likelihood are those of a prediction.
    fn prediction_agrees(
        likelihood: &Likelihood,
        outputs: usize,
        check: impl Fn(&Outputs, &Prediction),
    ) {
        let model = Mlp::new(outputs);
        let posterior = gaussian(&model, &ParamGroup::all());
        let predictor = Predictor::new(model, posterior, Noise::new(4)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.onnx");
        let batch = |rows| inputs(rows, [0, 4]);
        predictor
            .save_onnx(&file, &batch(1), DRAWS, likelihood, Mlp::forward)
            .unwrap();
        let batches = ROWS.map(|rows| json!({"input": floats(&batch(rows))}));
        let found = evaluated(&file, batches.to_vec());
        for (found, rows) in found.iter().zip(ROWS) {
            let outputs = predictor.map_draws(DRAWS, |model| model.forward(batch(rows)));
            let outputs = Tensor::stack(outputs.unwrap(), 0);
            check(found, &Prediction::new(likelihood.clone(), outputs));
        }
    }

    #[test]
    fn predictions_of_classes_and_labels() {
        for likelihood in [Likelihood::Categorical, Likelihood::Ordinal] {
            prediction_agrees(&likelihood, 3, |found, expected| {
                assert_eq!(found.len(), 3);
                assert_output(found, "probabilities", &expected.probabilities().unwrap());
                assert_output(found, "entropy", &expected.predictive_entropy().unwrap());
                let information = expected.mutual_information().unwrap();
                assert_output(found, "mutual_information", &information);
            });
        }
        prediction_agrees(&Likelihood::Bernoulli, 3, |found, expected| {
            assert_eq!(found.len(), 2);
            assert_output(found, "probabilities", &expected.probabilities().unwrap());
            let epistemic = expected.epistemic_variance().sqrt();
            assert_output(found, "epistemic_deviation", &epistemic);
        });
    }

    #[test]
    fn predictions_of_numbers_and_counts() {
        let noise_precisions = vec![4.0, 0.5];
        for (likelihood, outputs) in [
            (
                Likelihood::Gaussian {
                    noise_precision: 4.0,
                },
                2,
            ),
            (Likelihood::GaussianTargets { noise_precisions }, 2),
            (Likelihood::HeteroscedasticGaussian, 4),
            (Likelihood::GaussianMixture { components: 3 }, 8),
            (Likelihood::Poisson, 2),
            (Likelihood::NegativeBinomial, 2),
        ] {
            prediction_agrees(&likelihood, outputs, |found, expected| {
                assert_eq!(found.len(), 3);
                assert_output(found, "mean", &expected.mean());
                assert_output(found, "deviation", &expected.deviation());
                let epistemic = expected.epistemic_variance().sqrt();
                assert_output(found, "epistemic_deviation", &epistemic);
            });
        }
    }

    /// In chains, the noise is a weight: each draw has its own.
    #[test]
    fn a_sampled_fit_with_its_noise() {
        let x = inputs(60, [0, 4]);
        let y = x.clone().sin().sum_dim(1) + inputs(60, [0, 1]) * 0.3;
        let noise_precision = 1.0;
        let likelihood = Likelihood::Gaussian { noise_precision };
        let model = Supervised::new(Mlp::new(1), Mlp::forward, likelihood);
        let auto = Auto::new().with_budget(Some(0.01));
        let fit = Fit::new(auto).with_learned_noise().with_progress(false);
        let (fitted, _) = fit.run(model, (x, y)).unwrap();
        let fitted = fitted.with_draws(DRAWS);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.onnx");
        let batch = |rows| inputs(rows, [0, 4]);
        fitted.save_onnx(&file, &batch(1)).unwrap();
        let batches = ROWS.map(|rows| json!({"input": floats(&batch(rows))}));
        for (found, rows) in evaluated(&file, batches.to_vec()).iter().zip(ROWS) {
            let expected = fitted.predict(batch(rows)).unwrap();
            assert_output(found, "mean", &expected.mean());
            assert_output(found, "deviation", &expected.deviation());
        }
    }

    #[derive(Module, Debug)]
    struct Pictures {
        first: Conv2d,
        norm: BatchNorm,
        largest: MaxPool2d,
        second: Conv2d,
        mean: AvgPool2d,
        up: ConvTranspose2d,
        whole: AdaptiveAvgPool2d,
        last: Linear,
    }

    impl Pictures {
        fn new(seed: u64) -> Self {
            let (device, same) = (&device(), PaddingConfig2d::Explicit(1, 1, 1, 1));
            let model = Self {
                first: Conv2dConfig::new([2, 4], [3, 3])
                    .with_padding(same.clone())
                    .init(device),
                norm: BatchNormConfig::new(4).init(device),
                largest: MaxPool2dConfig::new([3, 3])
                    .with_strides([2, 2])
                    .with_padding(same.clone())
                    .init(),
                second: Conv2dConfig::new([4, 6], [3, 2])
                    .with_groups(2)
                    .with_stride([2, 1])
                    .with_dilation([1, 2])
                    .with_padding(same.clone())
                    .init(device),
                mean: AvgPool2dConfig::new([2, 2])
                    .with_strides([1, 1])
                    .with_padding(same)
                    .with_count_include_pad(false)
                    .init(),
                up: ConvTranspose2dConfig::new([6, 4], [3, 3])
                    .with_stride([2, 2])
                    .with_padding([1, 1])
                    .with_padding_out([1, 1])
                    .init(device),
                whole: AdaptiveAvgPool2dConfig::new([2, 1]).init(),
                last: LinearConfig::new(8, 3).init(device),
            };
            let model = filled(model, seed, 0.3);
            // Running statistics that are not those of the start.
            let statistics =
                |from: f32| Tensor::<1>::from_floats(&*normals(seed, 4), device) * 0.2 + from;
            model.norm.running_mean.update(statistics(0.1));
            model.norm.running_var.update(statistics(1.5));
            model
        }

        fn forward(&self, x: Tensor<4>) -> Tensor<2> {
            let hidden = self.norm.forward(self.first.forward(x));
            let hidden = self.largest.forward(relu(hidden));
            let hidden = Gelu::new().forward(self.second.forward(hidden));
            let hidden = self.up.forward(self.mean.forward(hidden));
            self.last.forward(self.whole.forward(hidden).flatten(1, 3))
        }
    }

    fn pictures(rows: usize) -> Tensor<4> {
        inputs(rows, [0, 2, 8, 6])
    }

    #[test]
    fn a_network_of_convolutions() {
        for group in [ParamGroup::all(), ParamGroup::from_predicate("last")] {
            let model = Pictures::new(1);
            let posterior = gaussian(&model, &group);
            let predictor = Predictor::new(model, posterior, Noise::new(4)).unwrap();
            draws_agree(&predictor, pictures, Pictures::forward);
        }
    }

    /// Every component has its own running statistics.
    #[test]
    fn an_ensemble_with_batch_norm() {
        let members = [1, 2, 3].map(|seed| {
            let member = Pictures::new(seed);
            PointPosterior::of(&member, &ParamGroup::all()).unwrap()
        });
        let posterior = Mixture::uniform(members.to_vec()).unwrap();
        let predictor = Predictor::new(Pictures::new(4), posterior, Noise::new(4)).unwrap();
        draws_agree(&predictor, pictures, Pictures::forward);
    }

    #[derive(Module, Debug)]
    struct Transformer {
        tokens: Embedding,
        places: Embedding,
        norm: LayerNorm,
        attention: MultiHeadAttention,
        last: Linear,
    }

    impl Transformer {
        const LEN: usize = 5;

        fn new(device: &Device) -> Self {
            let model = Self {
                tokens: EmbeddingConfig::new(11, 8).init(device),
                places: EmbeddingConfig::new(Self::LEN, 8).init(device),
                norm: LayerNormConfig::new(8).init(device),
                attention: MultiHeadAttentionConfig::new(8, 2).init(device),
                last: LinearConfig::new(8, 11).init(device),
            };
            filled(model, 1, 0.4)
        }

        fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
            let [rows, len] = tokens.dims();
            let device = tokens.device();
            let places = Tensor::arange(0..len as i64, &device).reshape([1, len]);
            let places = places.repeat_dim(0, rows);
            let is_blank = tokens.clone().equal_elem(0);
            let hidden = self.tokens.forward(tokens) + self.places.forward(places);
            let causal = generate_autoregressive_mask(rows, len, &device);
            let attended = MhaInput::self_attn(self.norm.forward(hidden.clone()))
                .mask_attn(causal)
                .mask_pad(is_blank);
            let hidden = hidden + self.attention.forward(attended).context;
            let last = hidden.narrow(1, len - 1, 1).squeeze_dim::<2>(1);
            log_softmax(self.last.forward(last), 1)
        }
    }

    /// The mean and the variance of the outputs of a last layer, without draws.
    #[test]
    fn a_last_layer_in_closed_form() {
        const FEATURES: usize = 3;
        const OUTPUTS: usize = 2;
        const WEIGHTS: usize = (FEATURES + 1) * OUTPUTS;
        let first = LinearConfig::new(4, FEATURES).init(&device());
        let last = LinearConfig::new(FEATURES, OUTPUTS).init(&device());
        let posterior = gaussian(&last, &ParamGroup::all());
        let dense = posterior.to_dense().unwrap();
        let covariance = dense.covariance().as_slice();
        // Weight i of an output, and its bias as number `FEATURES`.
        let at = |output: usize, i: usize, j: usize| {
            covariance[(i * OUTPUTS + output) * WEIGHTS + j * OUTPUTS + output]
        };
        let constant = |columns: usize, value: &dyn Fn(usize) -> f64| {
            let values: Vec<f32> = (0..FEATURES).map(|i| value(i) as f32).collect();
            Tensor::<1>::from_floats(&*values, &device()).reshape([FEATURES / columns, columns])
        };
        let parts = [0, 1].map(|output| {
            let rows = (0..FEATURES).map(|i| constant(FEATURES, &|j| at(output, i, j)));
            let quadratic = Tensor::cat(rows.collect(), 0);
            let linear = constant(1, &|i| 2.0 * at(output, i, FEATURES));
            (quadratic, linear, at(output, FEATURES, FEATURES))
        });
        let features = |inputs: Tensor<2>| {
            // Recordings have a device of their own.
            let first = first.clone().to_device(&inputs.device());
            relu(first.forward(inputs))
        };
        let forward = |last: &Linear, inputs: Tensor<2>| {
            let features = features(inputs);
            let variances = parts.each_ref().map(|(quadratic, linear, constant)| {
                let [quadratic, linear] = [quadratic, linear]
                    .map(|part: &Tensor<2>| part.clone().to_device(&features.device()));
                let products = features.clone().matmul(quadratic) * features.clone();
                products.sum_dim(1) + features.clone().matmul(linear) + *constant
            });
            let mean = last.forward(features.clone());
            Tensor::cat(vec![mean, Tensor::cat(variances.to_vec(), 1)], 1)
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.onnx");
        let inputs = |rows: usize| {
            let values = normals(3, 4 * rows);
            Tensor::<1>::from_floats(&*values, &device()).reshape([rows, 4])
        };
        let mean = |_| Ok::<_, burn_bayes::graph::Error>(last.clone());
        let layout = posterior.layout().clone();
        let part = |first: usize| {
            move |found: Tensor<3>| found.squeeze_dim::<2>(0).narrow(1, first, OUTPUTS)
        };
        let model = OnnxModel::of_draws(1, mean, layout, &inputs(2), forward).unwrap();
        let model = model.with_output("mean", part(0)).unwrap();
        let model = model.with_output("variance", part(OUTPUTS)).unwrap();
        std::fs::write(&file, model.into_bytes(&[]).unwrap()).unwrap();
        let batches = ROWS.map(|rows| json!({"input": floats(&inputs(rows))}));
        for (found, rows) in evaluated(&file, batches.to_vec()).iter().zip(ROWS) {
            let features = features(inputs(rows));
            assert_output(found, "mean", &last.forward(features.clone()));
            let expected = values(&features);
            let expected = expected.chunks(FEATURES).flat_map(|features| {
                [0, 1].map(|output| {
                    let of = |i: usize| features.get(i).copied().unwrap_or(1.0);
                    let pairs = (0..=FEATURES).flat_map(|i| (0..=FEATURES).map(move |j| (i, j)));
                    let terms = pairs.map(|(i, j)| of(i) * at(output, i, j) * of(j));
                    terms.sum::<f64>() as f32
                })
            });
            let expected = TensorData::new(expected.collect::<Vec<_>>(), [rows, OUTPUTS]);
            assert_output(
                found,
                "variance",
                &Tensor::<2>::from_data(expected, &device()),
            );
        }
    }

    #[test]
    fn a_transformer() {
        let tokens = |rows: usize| {
            let tokens: Vec<i64> = (0..rows * Transformer::LEN)
                .map(|place| {
                    1 + (place * 7 % 10) as i64 * i64::from(place % 5 != 1)
                        - i64::from(place % 5 == 1)
                })
                .collect();
            let tokens = TensorData::new(tokens, [rows, Transformer::LEN]);
            Tensor::<2, Int>::from_data(tokens, &device())
        };
        for group in [
            ParamGroup::all(),
            ParamGroup::from_predicate("attention"),
            ParamGroup::from_predicate("last"),
        ] {
            let model = Transformer::new(&device());
            let posterior = gaussian(&model, &group);
            let predictor = Predictor::new(model, posterior, Noise::new(4)).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("model.onnx");
            predictor
                .save_onnx_draws(&file, &tokens(1), DRAWS, Transformer::forward)
                .unwrap();
            let batches = ROWS.map(|rows| json!({"input": integers(&tokens(rows))}));
            let found = evaluated(&file, batches.to_vec());
            for (found, rows) in found.iter().zip(ROWS) {
                let expected = predictor.map_draws(DRAWS, |model| model.forward(tokens(rows)));
                let expected: Tensor<3> = Tensor::stack(expected.unwrap(), 0);
                assert_output(found, "outputs", &expected);
            }
        }
    }
}
