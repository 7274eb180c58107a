# ANCHOR: predict
import burn_bayes_reader

run = burn_bayes_reader.load("curve")
columns = run.predict("inputs.csv")
for mean, deviation, of_weights in zip(columns["mean"], columns["std"], columns["epistemic_std"]):
    print(f"{mean:.2f} ± {deviation:.2f}, ± {of_weights:.2f} without the noise")
column = run.predict([{"x": 0.5}], quantiles=[0.025, 0.975])
print(f"95 % interval at 0.5: {column['q0.025'][0]:.2f} to {column['q0.975'][0]:.2f}")
# ANCHOR_END: predict

# ANCHOR: posterior
posterior = burn_bayes_reader.read_posterior("curve/posterior.safetensors")
print(posterior.form, posterior.samples.shape, posterior.factors.shape)
for name, weights in posterior.by_name(posterior.draw(100, seed=1)).items():
    print(name, weights.shape, weights.mean(axis=0).round(2).tolist())
# ANCHOR_END: posterior
