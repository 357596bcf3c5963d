#include "launch.h"

#include <algorithm>
#include <vector>

namespace surgeon
{

namespace
{

constexpr int64_t kPadVectorsABlock = 1024; // 16 KiB

struct RawAxis
{
    int64_t in, begin, end;
    bool plain() const { return begin == 0 && end == 0; }
};

template <class U>
PadGeometry<U> pad_geometry(std::vector<RawAxis> const& axes, PadMode mode)
{
    using Index = std::make_signed_t<U>;
    PadGeometry<U> g{};
    g.rank = int(axes.size());
    g.mode = mode;
    g.elements = 1;
    g.in_elements = 1;
    for (int i = 0; i < g.rank; ++i)
    {
        RawAxis const& a = axes[g.rank - 1 - i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        U const out = U(a.in + a.begin + a.end);
        g.axes[i] = PadAxis<U>{FastDiv<U>(out), Index(std::max<int64_t>(a.begin, 0)), Index(a.in - crop - crop_end),
            Index(crop), g.in_elements};
        g.in_elements *= Index(a.in);
        g.elements *= out;
    }
    return g;
}

template <class T, class U, int ROWS, int PACKS>
cudaError_t launch_pad_kernel(T const* x, T* y, PadGeometry<U> const& g, cudaStream_t on)
{
    int64_t const vectors = std::max<int64_t>(int64_t(g.axes[0].size) / int64_t(kVectorBytes / sizeof(T)), 1);
    int const lanes = std::clamp(next_power_of_two(ceil_div(vectors, int64_t(PACKS))), 4, 32);
    int64_t const segments = ceil_div(vectors, int64_t(lanes) * PACKS), rows = int64_t(g.elements / g.axes[0].out.d);
    int64_t const blocks = ceil_div(rows * segments, int64_t(kPadThreads / lanes) * ROWS);
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    bool const stream = streams((int64_t(g.in_elements) + int64_t(g.elements)) * int64_t(sizeof(T)));
    pad_kernel<T, U, ROWS, PACKS>
        <<<unsigned(blocks), kPadThreads, 0, on>>>(x, y, g, FastDiv<U>(U(segments)), U(rows * segments), lanes, stream);
    return cudaGetLastError();
}

PadBlocks pad_blocks(std::vector<RawAxis> const& axes, PadMode mode, int vec)
{
    PadBlocks g{};
    g.rank = int(axes.size());
    g.mode = mode;
    g.rows = 1;
    int64_t stride = 1;
    for (int i = g.rank - 1; i >= 0; --i)
    {
        RawAxis const& a = axes[i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        uint64_t const out = uint64_t(a.in + a.begin + a.end);
        g.axes[i] = PadAxis<uint64_t>{
            FastDiv<uint64_t>(out), std::max<int64_t>(a.begin, 0), a.in - crop - crop_end, crop, stride};
        stride *= a.in;
        g.rows *= i < g.rank - 1 ? out : 1;
    }
    g.in_elements = stride;
    int64_t const size = g.axes[g.rank - 1].size, width = int64_t(g.axes[g.rank - 1].out.d);
    int64_t const vectors = std::max<int64_t>(size / vec, 1);
    g.rows_a_block = int(std::clamp<int64_t>(kPadVectorsABlock * vec / width, 1, kPadThreads));
    g.segment = int(std::min<int64_t>(vectors, g.rows_a_block > 1 ? vectors : kPadVectorsABlock));
    g.vectors = FastDiv<uint32_t>(uint32_t(g.segment));
    g.border = FastDiv<uint32_t>(uint32_t(std::min<int64_t>(width, width - size + 2 * (vec - 1))));
    return g;
}

template <class T>
cudaError_t launch_pad_blocks(T const* x, T* y, int64_t elements, PadBlocks const& g, cudaStream_t on)
{
    PadAxis<uint64_t> const& last = g.axes[g.rank - 1];
    int64_t const blocks = ceil_div(int64_t(g.rows), int64_t(g.rows_a_block));
    int64_t const vectors = last.size / int64_t(kVectorBytes / sizeof(T));
    int64_t const segments = std::max<int64_t>(1, ceil_div(vectors, int64_t(g.segment)));
    if (blocks > kMostBlocks || segments > 65535 || last.out.d >= (uint64_t(1) << 31))
        return cudaErrorInvalidValue;
    bool const stream = streams((g.in_elements + elements) * int64_t(sizeof(T)));
    pad_blocks_kernel<T><<<dim3(unsigned(blocks), unsigned(segments)), kPadThreads, 0, on>>>(x, y, g, stream);
    return cudaGetLastError();
}

std::vector<RawAxis> pad_axes(Attributes const& a, Tensor const& x)
{
    std::vector<RawAxis> axes;
    auto const add = [&](RawAxis const& axis) {
        if (!axes.empty() && axes.back().plain() && axis.plain())
            axes.back().in *= axis.in;
        else
            axes.push_back(axis);
    };
    auto const axis_of = [&](int i) { return RawAxis{x.dims[i], a.pads[i], a.pads[i + x.rank]}; };
    if (x.layout == Layout::kChannelsLast8)
        for (int i : {0, 2, 3, 1})
            add(axis_of(i));
    else
        for (int i = 0; i < x.rank; ++i)
            add(axis_of(i));
    return axes;
}

} // namespace

PadPlan plan_pad(Attributes const& a, Tensor const& x, Tensor const& y)
{
    constexpr int64_t kNarrow = int64_t(1) << 30; // a reflection has twice its extent for a period
    bool const wide = std::max(x.elements(), y.elements()) > kNarrow;
    RawAxis const last = pad_axes(a, x).back();
    if (size_of(x.type) == 4 || last.plain())
        return PadPlan{0, 0, wide};
    return last.in * size_of(x.type) <= 8 * kVectorBytes ? PadPlan{2, 1, wide} : PadPlan{1, 4, wide};
}

cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    std::vector<RawAxis> const axes = pad_axes(a, x);
    auto const launch = [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x.data);
        auto* const out = static_cast<T*>(y.data);
        if (plan.rows == 0)
            return launch_pad_blocks(
                in, out, y.elements(), pad_blocks(axes, PadMode(a.mode), kVectorBytes / sizeof(T)), on);
        if (plan.wide)
            return launch_pad_kernel<T, uint64_t, 1, 2>(in, out, pad_geometry<uint64_t>(axes, PadMode(a.mode)), on);
        PadGeometry<uint32_t> const g = pad_geometry<uint32_t>(axes, PadMode(a.mode));
        switch (plan.rows * 10 + plan.packs)
        {
        case 12: return launch_pad_kernel<T, uint32_t, 1, 2>(in, out, g, on);
        case 21: return launch_pad_kernel<T, uint32_t, 2, 1>(in, out, g, on);
        case 14: return launch_pad_kernel<T, uint32_t, 1, 4>(in, out, g, on);
        }
        return cudaErrorInvalidValue;
    };
    return size_of(x.type) == 4 ? launch(Tag<float>{}) : launch(Tag<__half>{}); // bits are moved, not interpreted
}

} // namespace surgeon
