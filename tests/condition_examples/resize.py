"""Examples of the conditions about Resize and GridSample."""

from __future__ import annotations

from condition_examples.example import Example, both

EXAMPLES: dict[str, list[Example]] = {
    "Resize.coordinate_transformation_mode.3": [
        Example("Resize", "rtx", "sizes are not read with tf_half_pixel_for_nn: scales are", 12, *both('(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[0] r = {}, float[4] f = {1, 1, 2, 2}, int64[4] s = {1, 1, 4, 4}> { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, r, s) }', "(x, r, r, s)", "(x, r, f)")),
    ],
    "sizes_of_some_axes": [
        Example("Resize", "rtx", "the sizes of the axes that are not named are read as -1", 18, *both("(float[N,1,2,2] x) => (float[a,b,c,d] y) <int64[2] s = {4, 4}, int64[4] t = {1, 1, 4, 4}> { y = Resize <axes = [2, 3]> (x, , , s) }", "float[N,1", "float[3,1")),
    ],
    "cubic_dimensions": [
        Example("Resize", "8.5 to 11.4, rtx", "cubic interpolation is supported in the last two dimensions only", 13, *both('(float[1,1,4,4,4] x) => (float[a,b,c,d,e] y) <float[5] s = {1, 1, 2, 1, 1}> { y = Resize <mode = "cubic"> (x, , s) }', "1, 1, 2, 1, 1", "1, 1, 1, 2, 2"), beside=("cubic interpolation is refused",)),
    ],
}  # fmt: skip
