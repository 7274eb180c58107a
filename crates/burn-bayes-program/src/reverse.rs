//! The reverse pass: gradients of a graph's value as further nodes of the graph.

use burn_bayes_kernels::Unary;

use crate::expr::Expr;
use crate::graph::{Graph, Kind, Normalised, Part, Rule, Source, Value};
use crate::shape::View;

impl Graph {
    /// The gradients of Σ seed · value with respect to `targets`; `None` where it does not depend on one.
    ///
    /// `seed` has the axes of the value. A target's gradient counts all its uses, also those through other values of
    /// the same node.
    pub fn gradients(
        &mut self,
        value: &Value,
        seed: &Value,
        targets: &[Value],
    ) -> Vec<Option<Value>> {
        let is_wanted = self.dependents(targets);
        let mut reverse = Reverse {
            parts: vec![Vec::new(); self.nodes.len()],
            found: vec![None; self.nodes.len()],
            is_wanted,
        };
        reverse.add(value, Source::Copy(seed.clone()));
        for node in (0..reverse.parts.len()).rev() {
            reverse.visit(self, node);
        }
        let gradient = |target: &Value| {
            let whole = reverse.found[target.node].as_ref()?;
            let view = target.view.clone();
            let node = whole.node;
            Some(Value { node, view })
        };
        targets.iter().map(gradient).collect()
    }

    /// The nodes that depend on the targets.
    fn dependents(&self, targets: &[Value]) -> Vec<bool> {
        let mut depends = vec![false; self.nodes.len()];
        for target in targets {
            depends[target.node] = true;
        }
        for (node, content) in self.nodes.iter().enumerate() {
            let mut reads = false;
            match &content.kind {
                Kind::Arg { .. } => {}
                Kind::Ruled { rule, .. } => {
                    reads = rule.inputs().iter().any(|input| depends[input.node]);
                }
                kind => kind.for_operands(&mut |operand| reads |= depends[operand.node]),
            }
            depends[node] |= reads;
        }
        depends
    }
}

impl Kind {
    /// Visits every value that the node reads.
    pub(crate) fn for_operands(&self, visit: &mut impl FnMut(&Value)) {
        match self {
            Self::Leaf(_) => {}
            Self::Map(_, operands) => operands.iter().for_each(visit),
            Self::Total(parts) => parts.iter().for_each(|part| match &part.source {
                Source::Copy(value) => visit(value),
                Source::Product(left, right) => {
                    visit(left);
                    visit(right);
                }
                Source::Routed { values, index, .. } => {
                    visit(values);
                    visit(index);
                }
            }),
            Self::Ruled { value, .. } => visit(value),
            Self::Arg { of, .. } => visit(of),
            Self::Pick { table, index, .. } => {
                visit(table);
                visit(index);
            }
        }
    }
}

impl Rule {
    /// The values to which gradients pass.
    fn inputs(&self) -> Vec<&Value> {
        match self {
            Self::Softmax { of, .. } => vec![of],
            Self::Normalised(normalised) => {
                let Normalised {
                    of, scale, shift, ..
                } = &**normalised;
                vec![of, scale, shift]
            }
        }
    }
}

pub(crate) struct Reverse {
    /// What is added to the gradient of each node.
    parts: Vec<Vec<Part>>,
    /// The gradients of the nodes that were visited, each with the node's whole view.
    found: Vec<Option<Value>>,
    is_wanted: Vec<bool>,
}

impl Reverse {
    /// Adds to the gradient of a value.
    pub(crate) fn add(&mut self, to: &Value, source: Source) {
        if self.is_wanted[to.node] {
            let target = to.view.clone();
            self.parts[to.node].push(Part { source, target });
        }
    }

    fn visit(&mut self, graph: &mut Graph, node: usize) {
        let parts = std::mem::take(&mut self.parts[node]);
        if parts.is_empty() {
            return;
        }
        let axes = graph.nodes[node].axes.clone();
        let whole = View::whole(&axes);
        let dy = match &parts[..] {
            [
                Part {
                    source: Source::Copy(value),
                    target,
                },
            ] if target.is_same(&whole) => value.clone(),
            _ => graph.total(axes.clone(), parts),
        };
        match graph.nodes[node].kind.clone() {
            Kind::Leaf(_) => {}
            Kind::Map(expr, operands) => {
                let y = Value {
                    node,
                    view: whole.clone(),
                };
                self.through_map(graph, &expr, &operands, &y, &dy);
            }
            Kind::Total(parts) => {
                let dy = packed(graph, dy.clone(), &whole);
                for part in parts {
                    self.through_part(&part, &dy);
                }
            }
            // An index has no gradient.
            Kind::Arg { .. } => {}
            Kind::Ruled { rule, .. } => match rule {
                Rule::Softmax { of, axis, is_log } => {
                    let y = Value {
                        node,
                        view: whole.clone(),
                    };
                    self.through_softmax(graph, &of, (axis, is_log), &y, &dy);
                }
                Rule::Normalised(normalised) => self.through_normalised(graph, &normalised, &dy),
            },
            Kind::Pick {
                table,
                index,
                route,
            } => {
                let values = dy.clone();
                let source = Source::Routed {
                    values,
                    index,
                    route,
                };
                self.add(&table, source);
            }
        }
        // Targets are read through their own views.
        self.found[node] = Some(packed(graph, dy, &whole));
    }

    fn through_map(
        &mut self,
        graph: &mut Graph,
        expr: &Expr,
        operands: &[Value],
        y: &Value,
        dy: &Value,
    ) {
        let count = operands.len();
        let gradient = Expr::Operand(count);
        let result = Expr::Operand(count + 1);
        let gradients = expr.gradients(count, &gradient, &result);
        let mut all = operands.to_vec();
        all.extend([dy.clone(), y.clone()]);
        for (operand, gradient) in operands.iter().zip(gradients) {
            let Some(gradient) = gradient.filter(|_| self.is_wanted[operand.node]) else {
                continue;
            };
            let mut is_read = vec![false; all.len()];
            gradient.mark_operands(&mut is_read);
            let kept: Vec<_> = (0..all.len()).filter(|&index| is_read[index]).collect();
            let place = |index| kept.iter().position(|&kept| kept == index).unwrap_or(0);
            let gradient = gradient.with_operands(&|index| Expr::Operand(place(index)));
            let read = kept.iter().map(|&index| all[index].clone()).collect();
            let value = graph.map_over(&y.view.axes, gradient, read);
            self.add(operand, Source::Copy(value));
        }
    }

    /// dx = y (dy − Σ y dy), and dx = dy − exp(y) Σ dy for the logarithm. Unlike a derivation of the single steps, the
    /// first loses no digits where one entry has nearly all of the sum.
    fn through_softmax(
        &mut self,
        graph: &mut Graph,
        of: &Value,
        (axis, is_log): (usize, bool),
        y: &Value,
        dy: &Value,
    ) {
        if !self.is_wanted[of.node] {
            return;
        }
        let axes = &y.view.axes;
        let (dy_of, y_of, sum_of) = (Expr::Operand(0), Expr::Operand(1), Expr::Operand(2));
        let (summed, gradient) = if is_log {
            let share = y_of.apply(Unary::Exp);
            (dy.clone(), dy_of - share * sum_of)
        } else {
            let product = dy_of.clone() * y_of.clone();
            let product = graph.map_over(axes, product, vec![dy.clone(), y.clone()]);
            (product, y_of * (dy_of - sum_of))
        };
        let sum = graph.sum(&summed, &[axis]);
        let sum = sum.expanded(axes).expect("a kept axis is broadcast");
        let value = graph.map_over(axes, gradient, vec![dy.clone(), y.clone(), sum]);
        self.add(of, Source::Copy(value));
    }

    /// `dy` is the gradient of the whole node that the part is added into.
    fn through_part(&mut self, part: &Part, dy: &Value) {
        let seen = Value {
            node: dy.node,
            view: part.target.clone(),
        };
        match &part.source {
            Source::Copy(value) => self.add(value, Source::Copy(seen)),
            Source::Product(left, right) => {
                self.add(left, Source::Product(seen.clone(), right.clone()));
                self.add(right, Source::Product(left.clone(), seen));
            }
            Source::Routed { .. } => unreachable!("a reverse pass is not differentiated"),
        }
    }
}

/// The value with the whole view of its axes, in memory of its own if it lies otherwise.
fn packed(graph: &mut Graph, value: Value, whole: &View) -> Value {
    if value.view.is_same(whole) {
        Value {
            node: value.node,
            view: whole.clone(),
        }
    } else {
        graph.copied(value)
    }
}
