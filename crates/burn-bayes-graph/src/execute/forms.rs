//! The forms that operations come in, as macros: the function's name is all that differs.

macro_rules! unary {
    ($slots:ident, $op:ident, $function:ident) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input));
    }};
}

macro_rules! unary_typed {
    ($slots:ident, $op:ident, $function:ident) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input, $op.out.dtype.into()));
    }};
}

macro_rules! binary {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (lhs, rhs) = ($slots.read(&$op.lhs), $slots.read(&$op.rhs));
        $slots.write(&$op.out, Dispatch::$function(lhs, rhs));
    }};
}

macro_rules! scalar {
    ($slots:ident, $op:ident, $function:ident) => {{
        let lhs = $slots.read(&$op.lhs);
        $slots.write(&$op.out, Dispatch::$function(lhs, $op.rhs.into()));
    }};
}

macro_rules! compare {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (lhs, rhs) = ($slots.read(&$op.lhs), $slots.read(&$op.rhs));
        $slots.write(
            &$op.out,
            Dispatch::$function(lhs, rhs, $op.out.dtype.into()),
        );
    }};
}

macro_rules! compare_scalar {
    ($slots:ident, $op:ident, $function:ident) => {{
        let lhs = $slots.read(&$op.lhs);
        let out = Dispatch::$function(lhs, $op.rhs.into(), $op.out.dtype.into());
        $slots.write(&$op.out, out);
    }};
}

macro_rules! along {
    ($slots:ident, $op:ident, $function:ident $(, $more:expr)*) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input, $op.axis $(, $more)*));
    }};
}

macro_rules! with_indices {
    ($slots:ident, $op:ident, $call:expr) => {{
        let (out, indices) = $call;
        $slots.write(&$op.out, out);
        $slots.write(&$op.out_indices, indices);
    }};
}

macro_rules! create {
    ($slots:ident, $op:ident, $function:ident) => {{
        let shape = $op.out.shape.clone();
        let out = Dispatch::$function(shape, &$slots.device, $op.out.dtype.into());
        $slots.write(&$op.out, out);
    }};
}
