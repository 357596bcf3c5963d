"""Examples of the conditions about shapes."""

from __future__ import annotations

from condition_examples.example import Example, both

BAD_INPUT = "its input {} must be an initializer"
SHAPED = {  # by operator: inputs after x, a computed integer tensor `r` in one of them
    "ConstantOfShape": ("y = ConstantOfShape (r)",),
    "Expand": ("y = Expand (x, r)",),
    "Pad": ("y = Pad (x, r)",),
    "Reshape": ("y = Reshape (x, r)",),
    "Resize": ('y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , , r)',),
    "Slice": ("y = Slice (x, r, e, a)", "y = Slice (x, e, r, a)"),
    "Tile": ("y = Tile (x, r)",),
}
DEEP = "(float[2,3] x, int64[2,1] d) => (float[a,b] y) <int64[1] all = {-1}, int64[2] e = {1, 1}, int64[2] a = {0, 1}>"
CONE = "its input {} is computed through 'f' of 2 dimensions; one at most is supported"


def deep(op: str, call: str) -> Example:
    position = call[call.index("(x") :].count(",", 0, call[call.index("(x") :].index("r")) if "(x" in call else 0
    before = {"Pad": (BAD_INPUT.format(1),)}.get(op, ())
    first = {"Pad": "8.2", "Reshape": "6.0", "Resize": "6.0", "Slice": "6.0"}.get(op, "7.0")
    text = f"{DEEP} {{ f = Neg (d) r = Reshape (f, all) {call} }}"
    taken = text.replace("int64[2,1] d", "int64[2] d")
    return Example(op, f"{first} to 8.4", CONE.format(position), 13, text, (taken,), beside=before)


def deep_range(position: int) -> Example:
    inputs = ", ".join("r" if position == k else "one" for k in range(3))
    text = (
        "(int64[1,1] d) => (int64[n] y) <int64 one = {1}, int64[0] none = {}>"
        f" {{ f = Neg (d) r = Reshape (f, none) y = Range ({inputs}) }}"
    )
    return Example(
        "Range", "7.0 to 8.4", CONE.format(position), 13, text, (text.replace("int64[1,1] d", "int64[1] d"),)
    )


FLOATS_AS_SIZES = {
    **SHAPED,
    "OneHot": ("z = ReduceMax <keepdims = 0> (r) i = Cast <to = 7> (x) y = OneHot <axis = 0> (i, z, p)",),
    "TopK": ("z = ReduceMax <keepdims = 1> (r) y, i = TopK (x, z)",),
    "Range": tuple(f"l = ReduceMax <keepdims = 0> (r) m = Cast <to = {to}> (l) y = Range (m, m, m)" for to in (1, 7)),
}
RETURNED = {"OneHot": "(float[a,b,c] y)", "Range": "(float[a] y)"}
CONSTANTS = "<int64[2] e = {1, 1}, int64[2] a = {0, 1}, float[2] p = {0, 1}>"
OF_FLOATS = "a size follows from the input 'q', which holds floats"
SCALED = (
    "(float[1,4] x, float[2] q, int64[2] n) => (float[a,b] y) { h = Shape (x) f = Cast <to = 1> (h) t = Abs (q) "
    'y = Resize <nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , t) }'
)
BY_NUMBER = "(float[1,4] x, float[2] q) => (float[a,b] y) { y = OP (x, q) }"
FIXED = "(float[1,4] x) => (float[a,b] y) <float[2] q = {1, 1}> { y = OP (x, q) }"


def of_floats(op: str, call: str) -> Example:
    given = {"Pad": "(float[2,3] x, float[4] q)", "Reshape": "(float[1,1] x, float[2] q)"}.get(
        op, "(float[2,3] x, float[2] q)"
    )
    text = f"{given} => {RETURNED.get(op, '(float[a,b] y)')} {CONSTANTS} {{ r = Cast <to = 7> (q) {call} }}"
    beside = {"TopK": (BAD_INPUT.format(1),)}.get(op, ())
    first = {"OneHot": "8.5", "TopK": "8.5", "Range": "7.0"}.get(op, "8.4")
    taken = text.replace("float[2] q", "int64[2] q").replace("float[4] q", "int64[4] q")
    return Example(op, f"{first} to 11.4, rtx", OF_FLOATS, 13, text, (taken,), beside=beside)


OF_SIZES = [
    *(of_floats(op, call) for op, calls in FLOATS_AS_SIZES.items() for call in calls),
    Example("Resize", "8.4 to 11.4, rtx", OF_FLOATS, 13, *both(SCALED, "Abs (q)", "Cast <to = 1> (n)", "Div (f, f)"), beside=("its input 2 must be an initializer",)),
    Example("Resize", "8.4 to 11.4, rtx", OF_FLOATS, 10, BY_NUMBER, (FIXED,)),
    Example("Upsample", "8.5 to 11.4, rtx", OF_FLOATS, 9, BY_NUMBER, (FIXED,), beside=("its input 1 must be an initializer",)),
    Example("HannWindow", "10.4 to 11.4, rtx", OF_FLOATS, 17, *both("(float q, int64 n) => (float[a] y) { r = Cast <to = 7> (q) y = HannWindow (r) }", "Cast <to = 7> (q)", "Cast <to = 7> (n)")),
    # what it is computed through: every operator of the way up is looked at, and one that gives data ends it
    Example("Slice", "8.4 to 11.4, rtx", OF_FLOATS, 13, *both("(float[2,3] x, float[4,3] q) => (float[a,b] y) <int64[1] e = {1}> { t = Abs (q) m = ReduceMax <keepdims = 0> (t) r = Cast <to = 7> (m) s = Reshape (r, e) y = Slice (x, e, s, e) }", "Abs (q)", "ArgMax <axis = 0, keepdims = 0> (q)")),
    Example("Slice", "8.4 to 11.4, rtx", OF_FLOATS.replace("floats", "bool"), 13, *both("(float[2,3] x, bool[1] q) => (float[a,b] y) <int64[1] e = {1}> { s = Cast <to = 7> (q) y = Slice (x, e, s, e) }", "bool[1] q", "int64[1] q")),
]  # fmt: skip


EXAMPLES: dict[str, list[Example]] = {
    "float_sizes": OF_SIZES,
    "shape_range": [
        Example("Shape", "6.0 to 9.3", "start and end are not read: it would return the whole shape", 15, *both(f"(float[2,3] x) => (int64[n] y) {{ y = Shape <{written} = 1> (x) }}", f"{written} = 1", "start = 0", "start = -2", "end = 2"))
        for written in ("start", "end")
    ],
    "shape_tensor_rank": [
        *(deep(op, call) for op, calls in SHAPED.items() for call in calls),
        *(deep_range(position) for position in range(3)),
    ],
    "one_hot_shape": [
        Example(
            "OneHot", "8.5 to 11.4", "a shape is computed from it, which Tile reads", 13,
            *both("(int64[1] i, int64[2] v, float[1,8] x) => (float[a,b] t) <int64 two = {2}, int64[1] all = {-1}> { y = OneHot (i, two, v) s = Reshape (y, all) t = Tile (x, s) }", "Tile (x, s)", "Gather <axis = 1> (x, s)"),
        )
    ],
    "Reshape.allowzero.where": [
        Example(
            "Reshape", "7.0 to 8.2", "allowzero is not read: 0 would copy the dimension", 14,
            *both("(float[2,3] x, int64[2] c) => (float[a,b] y) <int64[2] s = {0, 3}, int64[2] t = {3, 2}> { y = Reshape <allowzero = 1> (x, s) }", "<allowzero = 1> (x, s)", "<allowzero = 1> (x, t)", "<allowzero = 0> (x, s)"),
        ),
        Example(
            "Reshape", "7.0 to 8.2", "allowzero is not read: 0 would copy the dimension", 14,
            *both("(float[2,3] x, int64[2] c) => (float[a,b] y) <int64[2] t = {3, 2}> { y = Reshape <allowzero = 1> (x, c) }", "(x, c)", "(x, t)"),
        ),
    ],
    "EyeLike.where": [
        Example(
            "EyeLike", "7.2.2 to 11.4, rtx", "its size is not static: `Eyelike does not work for dynamically shaped tensors`", 9,
            *both(f"(float{shape} x) => (float[a,b] y) {{ y = EyeLike (x) }}", f"float{shape}", "float[2,3]"),
        )
        for shape in ("[N,3]", "[]")
    ],
}  # fmt: skip
