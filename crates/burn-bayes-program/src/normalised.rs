//! Normalisation over rows and other axes, as one node with a backward rule of its own.

use burn_bayes_kernels::Unary;

use crate::expr::Expr;
use crate::graph::{Graph, Kind, Normalised, Rule, Source, Value};
use crate::reverse::Reverse;
use crate::shape::{Axis, row_axis};

/// A value that is normalised over rows, and by what.
#[derive(Clone, Debug)]
pub struct BatchNormalised {
    /// a (x − mean) / (variance + ε)^½ + b.
    pub value: Value,
    /// The mean, of length one along the axes that it is over.
    pub mean: Value,
    /// The biased variance.
    pub variance: Value,
}

impl Graph {
    /// A value normalised by its mean and biased variance over `over`, which includes rows, times `scale` plus `shift`.
    ///
    /// `scale` and `shift` are broadcast to the axes of the mean. `None` if they cannot be.
    pub fn batch_normalised(
        &mut self,
        x: &Value,
        over: &[usize],
        epsilon: f32,
        [scale, shift]: [&Value; 2],
    ) -> Option<BatchNormalised> {
        let mut axes = x.axes().to_vec();
        over.iter().for_each(|&axis| axes[axis] = Axis::fixed(1));
        let (scale, shift) = (scale.expanded(&axes)?, shift.expanded(&axes)?);
        let count = self.entries(x, over)?;
        let operand = Expr::Operand;
        let sum = self.sum(x, over);
        let mean = self.map(operand(0) / operand(1), &[sum, count.clone()])?;
        let centred = operand(0) - operand(1);
        let square = centred.clone() * centred.clone();
        let squares = self.map(square, &[x.clone(), mean.clone()])?;
        let sum = self.sum(&squares, over);
        let variance = self.map(operand(0) / operand(1), &[sum, count.clone()])?;
        let inverse = operand(0) + Expr::Constant(epsilon);
        let inverse = inverse.apply(Unary::Sqrt).apply(Unary::Recip);
        let inverse = self.map(inverse, std::slice::from_ref(&variance))?;
        let factor = self.map(operand(0) * operand(1), &[scale.clone(), inverse.clone()])?;
        let value = centred * operand(2) + operand(3);
        let value = self.map(value, &[x.clone(), mean.clone(), factor, shift.clone()])?;
        let normalised = Normalised {
            of: x.clone(),
            scale,
            shift,
            mean: mean.clone(),
            inverse,
            count,
            over: over.to_vec(),
        };
        let rule = Rule::Normalised(Box::new(normalised));
        Some(BatchNormalised {
            value: self.push(x.axes().to_vec(), Kind::Ruled { value, rule }),
            mean,
            variance,
        })
    }

    /// The number of entries along `over`, which rows are among.
    fn entries(&mut self, x: &Value, over: &[usize]) -> Option<Value> {
        let rows = row_axis(x.axes()).filter(|rows| over.contains(rows))?;
        let ones = self.filled(&[x.axes()[rows]], 1.0);
        let count = self.sum(&ones, &[0]);
        let others = over.iter().filter(|&&axis| axis != rows);
        let others: usize = others.map(|&axis| x.axes()[axis].len).product();
        let all = Expr::Operand(0) * Expr::Constant(others as f32);
        let all = self.map(all, &[count])?;
        Some((1..x.axes().len()).fold(all, |all, _| all.inserted(0)))
    }
}

impl Reverse {
    /// With means over the same entries as μ: db = Σ dy, da = Σ dy x̂, and dx = a/σ (dy − mean dy − x̂ mean(dy x̂)).
    pub(crate) fn through_normalised(&mut self, graph: &mut Graph, node: &Normalised, dy: &Value) {
        let Normalised {
            of,
            scale,
            shift,
            mean,
            inverse,
            count,
            over,
        } = node;
        let operand = Expr::Operand;
        let map = |graph: &mut Graph, expr: Expr, operands: &[&Value]| {
            let operands: Vec<_> = operands.iter().map(|&operand| operand.clone()).collect();
            graph
                .map(expr, &operands)
                .expect("the axes are those of the node")
        };
        let normal = (operand(1) - operand(2)) * operand(3);
        let sum = graph.sum(dy, over);
        let product = operand(0) * normal.clone();
        let product = map(graph, product, &[dy, of, mean, inverse]);
        let product_sum = graph.sum(&product, over);
        self.add(shift, Source::Copy(sum.clone()));
        self.add(scale, Source::Copy(product_sum.clone()));
        let share = operand(0) / operand(1);
        let mean_dy = map(graph, share.clone(), &[&sum, count]);
        let mean_product = map(graph, share, &[&product_sum, count]);
        let factor = map(graph, operand(0) * operand(1), &[scale, inverse]);
        let projected = operand(0) - operand(4) - normal * operand(5);
        let operands = [dy, of, mean, inverse, &mean_dy, &mean_product, &factor];
        let dx = map(graph, operand(6) * projected, &operands);
        self.add(of, Source::Copy(dx));
    }
}
