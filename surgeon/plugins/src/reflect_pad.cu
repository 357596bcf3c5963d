#include "launch.h"

#include <algorithm>
#include <vector>

namespace surgeon
{

namespace
{

constexpr int64_t kPadVectorsABlock = 1024; // 16 KiB
constexpr int kPadChunk = 16 << 10, kWidestRow = 1 << 29;
constexpr size_t kMostShared = 48 << 10; // of a block, unless it asks for more

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
    g.in_elements = 1;
    g.rows = 1;
    for (int i = g.rank - 1; i >= 0; --i)
    {
        RawAxis const& a = axes[i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        U const out = U(a.in + a.begin + a.end);
        g.axes[i] = PadAxis<U>{FastDiv<U>(out), Index(std::max<int64_t>(a.begin, 0)), Index(a.in - crop - crop_end),
            Index(crop), g.in_elements};
        g.in_elements *= Index(a.in);
        g.rows *= i < g.rank - 1 ? out : 1;
    }
    return g;
}

template <class T, class U>
cudaError_t launch_pad_chunks(
    T const* x, T* y, int64_t elements, PadGeometry<U> const& g, int chunk_bytes, cudaStream_t on)
{
    int const chunk = chunk_bytes / int(sizeof(T)), rows = chunk / int(g.axes[g.rank - 1].out.d) + 2;
    int64_t const blocks = ceil_div(elements, int64_t(chunk));
    size_t const shared = 2 * size_t(chunk_bytes) + 2 * kVectorBytes + size_t(rows) * sizeof(U);
    if (blocks > kMostBlocks || shared > kMostShared)
        return cudaErrorInvalidValue;
    int log_lanes = 8; // a row a group, but not below 4 threads
    while (log_lanes > 2 && rows << log_lanes > kChunkThreads)
        --log_lanes;
    bool const stream = streams((int64_t(g.in_elements) + elements) * int64_t(sizeof(T)));
    pad_chunks_kernel<T, U>
        <<<unsigned(blocks), kChunkThreads, shared, on>>>(x, y, g, elements, chunk, log_lanes, stream);
    return cudaGetLastError();
}

PadBlocks pad_blocks(PadGeometry<uint64_t> const& geometry, int vec)
{
    PadBlocks g{};
    g.geometry = geometry;
    PadAxis<uint64_t> const& last = geometry.axes[geometry.rank - 1];
    int64_t const size = last.size, width = int64_t(last.out.d);
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
    PadAxis<uint64_t> const& last = g.geometry.axes[g.geometry.rank - 1];
    int64_t const blocks = ceil_div(int64_t(g.geometry.rows), int64_t(g.rows_a_block));
    int64_t const vectors = last.size / int64_t(kVectorBytes / sizeof(T));
    int64_t const segments = std::max<int64_t>(1, ceil_div(vectors, int64_t(g.segment)));
    if (blocks > kMostBlocks || segments > 65535 || last.out.d >= (uint64_t(1) << 31))
        return cudaErrorInvalidValue;
    bool const stream = streams((g.geometry.in_elements + elements) * int64_t(sizeof(T)));
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
    RawAxis const last = pad_axes(a, x).back();
    int64_t const width = last.in + last.begin + last.end;
    if (last.plain() || last.begin < 0 || last.end < 0 || width * size_of(x.type) < kVectorBytes || width > kWidestRow)
        return PadPlan{};
    if (size_of(x.type) == 4 && !streams((x.elements() + y.elements()) * 4))
        return PadPlan{}; // faster where both tensors stay in the L2 cache
    constexpr int64_t kNarrow = int64_t(1) << 30;
    return PadPlan{kPadChunk, std::max(x.elements(), y.elements()) > kNarrow};
}

cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    std::vector<RawAxis> const axes = pad_axes(a, x);
    PadMode const mode = PadMode(a.mode);
    auto const launch = [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x.data);
        auto* const out = static_cast<T*>(y.data);
        if (plan.chunk == 0)
            return launch_pad_blocks(
                in, out, y.elements(), pad_blocks(pad_geometry<uint64_t>(axes, mode), kVectorBytes / sizeof(T)), on);
        return plan.wide ? launch_pad_chunks(in, out, y.elements(), pad_geometry<uint64_t>(axes, mode), plan.chunk, on)
                         : launch_pad_chunks(in, out, y.elements(), pad_geometry<uint32_t>(axes, mode), plan.chunk, on);
    };
    return size_of(x.type) == 4 ? launch(Tag<float>{}) : launch(Tag<__half>{}); // bits are moved, not interpreted
}

} // namespace surgeon
