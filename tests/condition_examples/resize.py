"""Examples of the conditions about Resize and GridSample."""

from __future__ import annotations

from condition_examples.example import Example, both

SCALED = '(float[1,4] x, float[2] s, int64[2] n) => (float[a,b] y) { h = Shape (x) f = Cast <to = 1> (h) t = Abs (s) y = Resize <nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , t) }'

EXAMPLES: dict[str, list[Example]] = {
    "Resize.coordinate_transformation_mode.3": [
        Example("Resize", "rtx", "sizes are not read with tf_half_pixel_for_nn: scales are", 12, *both('(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[0] r = {}, float[4] f = {1, 1, 2, 2}, int64[4] s = {1, 1, 4, 4}> { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, r, s) }', "(x, r, r, s)", "(x, r, f)")),
    ],
    "sizes_of_some_axes": [
        Example("Resize", "rtx", "the sizes of the axes that are not named are read as -1", 18, *both("(float[N,1,2,2] x) => (float[a,b,c,d] y) <int64[2] s = {4, 4}, int64[4] t = {1, 1, 4, 4}> { y = Resize <axes = [2, 3]> (x, , , s) }", "float[N,1", "float[3,1")),
    ],
    "resize_by_input": [
        Example("Resize", "8.4, rtx", "its scales follow from the input 's', which holds floats", 13, *both(SCALED, "Abs (s)", "Cast <to = 1> (n)", "Div (f, f)"), beside=("its input 2 must be an initializer",)),
        Example("Resize", "8.4, rtx", "its scales follow from the input 's', which holds floats", 10, "(float[1,4] x, float[2] s) => (float[a,b] y) { y = Resize (x, s) }", ("(float[1,4] x) => (float[a,b] y) <float[2] s = {1, 1}> { y = Resize (x, s) }",)),
        Example("Upsample", "rtx", "its scales follow from the input 's', which holds floats", 9, "(float[1,4] x, float[2] s) => (float[a,b] y) { y = Upsample (x, s) }", ("(float[1,4] x) => (float[a,b] y) <float[2] s = {1, 1}> { y = Upsample (x, s) }",)),
    ],
    "cubic_dimensions": [
        Example("Resize", "8.5 to 11.4, rtx", "cubic interpolation is taken in the last two dimensions alone", 13, *both('(float[1,1,4,4,4] x) => (float[a,b,c,d,e] y) <float[5] s = {1, 1, 2, 1, 1}> { y = Resize <mode = "cubic"> (x, , s) }', "1, 1, 2, 1, 1", "1, 1, 1, 2, 2"), beside=("cubic interpolation is refused",)),
    ],
}  # fmt: skip
