#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

using std::to_string;

int axis_in(Attributes const& a, int rank)
{
    return a.axis < 0 ? a.axis + rank : a.axis;
}

// Elements of a small input, or -1 while an extent is unknown.
int64_t known_elements(Tensor const& t)
{
    for (int i = 0; i < t.rank; ++i)
        if (t.dims[i] < 0)
            return -1;
    return t.elements();
}

std::string check_per_channel(Tensor const& x, int axis, Tensor const& t, char const* what)
{
    int64_t const have = known_elements(t), want = x.dims[axis];
    if (have >= 0 && want >= 0 && have != want)
        return std::string(what) + " has " + to_string(have) + " elements, axis " + to_string(axis) + " of the input "
            + to_string(want);
    if (t.type != x.type && t.type != Type::kFloat)
        return std::string(what) + " must be fp32 or of the input's type";
    return "";
}

std::string check_pads(Attributes const& a, Tensor const& x)
{
    if (x.rank == 0)
        return "a scalar has no axes to pad";
    if (a.pads_count != 2 * x.rank)
        return "pads has " + to_string(a.pads_count) + " entries, the input has " + to_string(x.rank) + " axes";
    for (int i = 0; i < x.rank; ++i)
    {
        int64_t const begin = a.pads[i], end = a.pads[i + x.rank];
        if (x.dims[i] >= 0 && x.dims[i] + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0) <= 0
            && (begin != 0 || end != 0))
            return "the pads of axis " + to_string(i) + " crop all of its " + to_string(x.dims[i]) + " elements";
    }
    return "";
}

std::string check_slope(Tensor const& x, Tensor const& slope)
{
    if (slope.rank > x.rank)
        return "slope has more axes than the input";
    for (int j = 0; j < slope.rank; ++j)
    {
        int64_t const have = slope.dims[j], want = x.dims[j + x.rank - slope.rank];
        if (have >= 0 && want >= 0 && have != 1 && have != want)
            return "slope does not broadcast to the input: " + to_string(have) + " against " + to_string(want);
    }
    return slope.type == x.type || slope.type == Type::kFloat ? "" : "slope must be fp32 or of the input's type";
}

// L2Norm's view of a tensor.
struct Planes
{
    int64_t outer, channels, inner;
};

Planes planes_of(Attributes const& a, Tensor const& x)
{
    int const axis = axis_in(a, x.rank);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < x.rank; ++i)
        (i < axis ? outer : inner) *= i == axis ? 1 : x.dims[i];
    return x.layout == Layout::kChannelsLast8 ? Planes{outer * inner, x.dims[axis], 1}
                                              : Planes{outer, x.dims[axis], inner};
}

} // namespace

int64_t growth(Kind kind, Attributes const& a, int axis)
{
    return kind == Kind::kSurgeonReflectPad ? int64_t(a.pads[axis]) + a.pads[axis + a.pads_count / 2] : 0;
}

std::string check(Kind kind, Attributes const& a, Tensor const* inputs, int count)
{
    PluginInfo const& info = plugin_info(kind);
    Tensor const& x = inputs[0];
    if (count < info.fewest_inputs || count > info.most_inputs)
        return "it takes " + to_string(info.fewest_inputs) + " to " + to_string(info.most_inputs) + " inputs, not "
            + to_string(count);
    if (x.rank > kMaxRank)
        return "the input has more than " + to_string(kMaxRank) + " axes";
    switch (kind)
    {
    case Kind::kSurgeonL2Norm:
    {
        int const axis = axis_in(a, x.rank);
        if (axis < 0 || axis >= x.rank)
            return "axis " + to_string(a.axis) + " is none of the input's " + to_string(x.rank);
        return count == 2 ? check_per_channel(x, axis, inputs[1], "weight") : "";
    }
    case Kind::kSurgeonInstanceNorm:
    {
        if (x.rank < 3 || x.rank > 5)
            return "the input must have 3 to 5 axes, not " + to_string(x.rank);
        if (count == 2)
            return "scale comes without bias";
        std::string const wrong = count == 3 ? check_per_channel(x, 1, inputs[1], "scale") : "";
        return wrong.empty() && count == 3 ? check_per_channel(x, 1, inputs[2], "bias") : wrong;
    }
    case Kind::kSurgeonReflectPad: return check_pads(a, x);
    case Kind::kSurgeonPRelu: return check_slope(x, inputs[1]);
    default: return "";
    }
}

bool takes_channels_last(Kind kind, Attributes const& a, int rank, int64_t const* dims)
{
    if (rank != 4 || dims[1] <= 0 || dims[1] % 8 != 0)
        return false;
    switch (kind)
    {
    case Kind::kSurgeonL2Norm: return axis_in(a, rank) == 1;
    case Kind::kSurgeonReflectPad: return a.pads_count == 8 && a.pads[1] == 0 && a.pads[5] == 0;
    case Kind::kSurgeonLeakyRelu: return true;
    default: return false;
    }
}

size_t tickets_bytes(Kind kind)
{
    return kind == Kind::kSurgeonL2Norm || kind == Kind::kSurgeonReflectPad ? sizeof(unsigned) : 0;
}

size_t workspace_bytes(Kind kind, int rank, int64_t const* dims)
{
    if (tickets_bytes(kind) > 0)
        return sizeof(unsigned);
    if (kind != Kind::kSurgeonInstanceNorm || rank < 3)
        return 0;
    int64_t length = 1;
    for (int i = 2; i < rank; ++i)
        length *= std::max<int64_t>(dims[i], 1);
    return instance_norm_workspace_bytes(std::max<int64_t>(dims[0], 1) * std::max<int64_t>(dims[1], 1), length);
}

cudaError_t run(Kind kind, Attributes const& a, Tensor const* inputs, int count, Tensor const& output,
    void* workspace, cudaStream_t on, unsigned* tickets)
{
    Tensor const& x = inputs[0];
    if (output.elements() == 0)
        return cudaSuccess;
    if (!aligned(x.data) || !aligned(output.data))
        return cudaErrorMisalignedAddress;
    switch (kind)
    {
    case Kind::kSurgeonL2Norm:
    {
        Planes const p = planes_of(a, x);
        return l2norm(x.type, x.data, count == 2 ? scalars(inputs[1]) : Scalars{}, output.data, p.outer, p.channels,
            p.inner, Norm{NormMode(a.mode), a.epsilon}, workspace, tickets, on);
    }
    case Kind::kSurgeonInstanceNorm:
    {
        int64_t const rows = x.dims[0] * x.dims[1], length = x.elements() / rows;
        bool const affine = count == 3;
        InstanceNormParams const params{affine ? scalars(inputs[1]) : Scalars{},
            affine ? scalars(inputs[2]) : Scalars{}, x.dims[1], a.epsilon, a.slope};
        RowsPlan const plan = plan_rows(x.type, rows, length, device());
        return launch_instance_norm(plan, x.type, x.data, output.data, rows, length, params, workspace, on);
    }
    case Kind::kSurgeonReflectPad: return launch_pad(plan_pad(a, x, output), a, x, output, workspace, tickets, on);
    case Kind::kSurgeonLeakyRelu: return leaky_relu(a, x, output, on);
    case Kind::kSurgeonPRelu: return prelu(x, inputs[1], output, on);
    case Kind::kCount: break;
    }
    return cudaErrorInvalidValue;
}

} // namespace surgeon
