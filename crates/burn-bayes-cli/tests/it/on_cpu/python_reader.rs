//! `python/burn_bayes_reader.py` reads runs and predicts as the program does.
//!
//! They are in a module called `needs_python`, which `cargo xtask test` skips without `python3`, NumPy and ONNX Runtime.

mod needs_python {
    use std::fmt::Write;
    use std::path::Path;
    use std::process::Command;

    use burn_bayes::eval::uniforms;

    use crate::workplace::Workplace;

    /// Flats with dates, times of day, amounts of money, missing cells and categories, and targets of every kind.
    fn flats(rows: usize, seed: u64, towns: &[&str]) -> String {
        let mut text =
            String::from("day,opened,town,area,extra,price,rent,visits,sold,grade,wet\n");
        let columns = [0, 1, 2, 3, 4].map(|column| uniforms(rows, seed + column));
        for row in 0..rows {
            let [u, v, w, x, y] = columns.each_ref().map(|column| column[row]);
            let (month, day) = (1 + (12.0 * w) as usize, 1 + (28.0 * x) as usize);
            let town = match row % 9 {
                4 => "",
                _ => towns[row * 7 % towns.len()],
            };
            let opened = match row % 7 {
                3 => String::new(),
                _ => format!(
                    "{}:{:02} {}m",
                    1 + row % 12,
                    row * 13 % 60,
                    ["a", "p"][row % 2]
                ),
            };
            let area = 1000.0 + 3000.0 * u;
            let extra = match row % 6 {
                0 => "NA".to_string(),
                _ => format!("{:.1}%", (9.0 * v).exp()),
            };
            let price = (6.0 + u + 0.3 * (x - 0.5)).exp();
            let rent = 5.0 * u - 3.0 * v + y;
            let visits = (8.0 * u * -(1.0 - y).ln()) as usize;
            let sold = if u + 0.5 * y > 0.7 { "yes" } else { "no" };
            let grade = ["low", "middle", "high"][(2.0 * u + y) as usize];
            let wet = usize::from(v + w > 1.0);
            writeln!(
                text,
                "{day}.{month}.{} {}:30,{opened},{town},\"${},{:03}.50\",{extra},{price:.2},{rent:.3},{visits},{sold},{grade},{wet}",
                2022 + row % 2,
                row % 24,
                area as usize / 1000,
                area as usize % 1000
            )
            .unwrap();
        }
        text
    }

    fn place() -> Workplace {
        let place = Workplace::new();
        let towns = ["Oslo", "Rome", "\"New \"\"York\"\"\"", "C:\\x"];
        place.write("known.csv", &flats(160, 1, &towns));
        place.write("new.csv", &flats(25, 11, &["Oslo", "Paris", "C:\\x"]));
        place
    }

    /// Runs a script of this folder in the workplace, with the reader among its modules.
    fn run_python(place: &Workplace, script: &Path, arguments: &[&str]) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new("python3")
            .args(["-W", "ignore"])
            .arg(root.join(script))
            .args(arguments)
            .current_dir(place.path(""))
            .env("PYTHONPATH", root.join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONIOENCODING", "utf-8")
            .env("BURN_DEVICE", "none")
            .output()
            .expect("python3 starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    const SCRIPT: &str = "crates/burn-bayes-cli/tests/it/on_cpu/python_reader.py";

    /// Fits with every one of these options, and compares the predictions.
    fn agree(target: &str, options: &[&str]) {
        let place = place();
        let others = ["price", "rent", "visits", "sold", "grade", "wet"];
        let ignored = others.map(|name| match target.split(',').any(|own| own == name) {
            true => String::new(),
            false => format!("--ignore {name}"),
        });
        let program = env!("CARGO_BIN_EXE_burn-bayes");
        for (index, options) in options.iter().enumerate() {
            let run = format!("run-{index}");
            place.output(&format!(
                "fit --data known.csv --target {target} {} --model mlp:4 {options} --out {run}",
                ignored.join(" ")
            ));
            let arguments = ["agree", program, run.as_str(), "new.csv"];
            run_python(&place, SCRIPT.as_ref(), &arguments);
        }
    }

    #[test]
    fn numbers_are_predicted_from_samples() {
        agree(
            "price",
            &[
                "--task regression --target-scale log --method mclmc --epochs 100 --validation 0.4 --recalibrate variance",
                "--task regression --target-scale log --method mclmc --epochs 100 --likelihood gaussian --model linear --feature-scale log",
                "--task regression --target-scale linear --method mclmc --epochs 100 --likelihood mixture \
                 --activation tanh --validation 0.4 --recalibrate variance",
                "--task regression --target-scale linear --method hmc --epochs 40 --no-intercept",
            ],
        );
    }

    #[test]
    fn several_numbers_and_labels_are_predicted() {
        agree(
            "price,rent",
            &["--method mclmc --epochs 100", "--method vifa --epochs 5"],
        );
        agree(
            "sold,wet",
            &["--method mclmc --epochs 100", "--method laplace --epochs 5"],
        );
    }

    #[test]
    fn classes_are_predicted() {
        agree(
            "sold",
            &[
                "--method mclmc --epochs 100 --validation 0.4 --recalibrate temperature",
                "--method laplace --epochs 5",
                "--method full-gaussian --model linear",
            ],
        );
        agree(
            "grade",
            &[
                "--method mclmc --epochs 100",
                "--method slang --epochs 5 --likelihood ordinal --class-order low,middle,high",
            ],
        );
    }

    #[test]
    fn counts_are_predicted() {
        agree(
            "visits",
            &[
                "--task counts --method mclmc --epochs 100",
                "--task counts --method vifa --epochs 5",
                "--task counts --method laplace --epochs 5",
                "--task counts --exposure area --method mclmc --epochs 100",
                "--task counts --exposure area --method laplace --epochs 5",
            ],
        );
    }

    #[test]
    fn numbers_are_predicted_from_gaussians_and_points() {
        agree(
            "price",
            &[
                "--task regression --target-scale log --method slang --epochs 5",
                "--task regression --target-scale log --method laplace --epochs 5 --likelihood heteroscedastic",
                "--task regression --target-scale linear --method vifa --epochs 5 --rank 2",
                "--task regression --target-scale linear --method ivon --epochs 40 --model mlp:4,3",
                "--task regression --target-scale log --method exact --model linear",
                "--task regression --target-scale log --method map --epochs 5",
            ],
        );
    }

    #[test]
    fn ensembles_are_predicted() {
        agree(
            "price",
            &[
                "--task regression --target-scale log --method map --epochs 5 --members 3",
                "--task regression --target-scale linear --method vifa --epochs 5 --members 2",
            ],
        );
        agree("sold", &["--method mclmc --epochs 60 --members 2"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let place = Workplace::new();
        let mut text = String::from("day,area,town,price\n");
        for row in 0..60 {
            let town = ["Oslo", "Rome", ""][row % 3];
            let area = 40 + row * 37 % 100;
            writeln!(
                text,
                "2024-0{}-{:02},{area},{town},{}.5",
                1 + row / 28,
                1 + row % 28,
                3 * area + row % 7
            )
            .unwrap();
        }
        place.write("known.csv", &text);
        place.output(
            "fit --data known.csv --target price --task regression --model linear --method exact --out run",
        );
        run_python(&place, SCRIPT.as_ref(), &["refuse", "run"]);
    }

    #[test]
    fn cells_of_every_type_are_those_of_a_file() {
        let place = Workplace::new();
        // The first column has no name.
        let mut text = String::from(",wet,code,open,y\n");
        for row in 0..80 {
            let (wet, open) = (["true", "false"][row % 2], ["True", "False"][row / 2 % 2]);
            let (number, code) = (row * 37 % 41, 1 + row % 3);
            let y = number + 9 * code + 5 * (row % 2) + row % 7;
            writeln!(text, "{number},{wet},{code}.0,{open},{y}.5").unwrap();
        }
        place.write("known.csv", &text);
        place.output(
            "fit --data known.csv --target y --task regression --target-scale linear --model linear --method exact \
             --categories code --out run",
        );
        run_python(&place, SCRIPT.as_ref(), &["cells", "run", "known.csv"]);
        let rows = "{\"column_0\": 0, \"wet\": true, \"code\": 1, \"open\": true}\n";
        let mut command = place.burn_bayes("predict run --json-lines");
        let output = command.write_stdin(rows).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }

    #[test]
    fn the_example_of_the_book_runs() {
        let place = Workplace::new();
        place.write("inputs.csv", include_str!("inputs.csv"));
        place.output("data generate gap --rows 100 --output curve.csv");
        place.output(
            "fit --data curve.csv --target y --task regression --method mclmc --epochs 100 --model mlp:4 --out curve",
        );
        let shown = run_python(&place, "examples/read_run.py".as_ref(), &[]);
        // Five inputs, one interval, the form, and the parameters of two layers.
        assert_eq!(shown.lines().count(), 5 + 1 + 1 + 4, "{shown}");
    }
}
