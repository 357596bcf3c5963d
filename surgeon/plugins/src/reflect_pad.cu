#include "launch.h"

#include <algorithm>
#include <vector>

namespace surgeon
{

namespace
{

constexpr int64_t kMostBlocksOfY = 65535; // and of z
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

// The threads that share a row, of a piece with so many: as many as do its rows in two rounds, a power of two. For
// halves any number below 8 does, and is taken where the power of two leaves a third of the threads nothing to do.
int pad_lanes(int rows, int element_bytes)
{
    int lanes = kChunkThreads;
    while (lanes > 1 && rows * lanes > 2 * kChunkThreads)
        lanes /= 2;
    if (element_bytes == 2 && lanes < 8 && 3 * rows * lanes < 4 * kChunkThreads)
        lanes = kChunkThreads / ceil_div(rows, 2);
    return lanes;
}

template <class T, class U>
cudaError_t launch_pad_chunks(
    T const* x, T* y, int64_t elements, PadGeometry<U> const& g, int chunk_bytes, cudaStream_t on)
{
    int const chunk = chunk_bytes / int(sizeof(T)), width = int(g.axes[g.rank - 1].out.d), rows = chunk / width + 2;
    int64_t const blocks = ceil_div(elements, int64_t(chunk));
    size_t const shared = 2 * size_t(chunk_bytes) + 4 * kVectorBytes + size_t(rows) * sizeof(U);
    if (blocks > kMostBlocks || shared > kMostShared)
        return cudaErrorInvalidValue;
    int const lanes = pad_lanes(ceil_div(chunk, width), int(sizeof(T)));
    bool const stream = streams((int64_t(g.in_elements) + elements) * int64_t(sizeof(T)));
    pad_chunks_kernel<T, U><<<unsigned(blocks), kChunkThreads, shared, on>>>(
        x, y, g, elements, chunk, FastDiv<uint32_t>(uint32_t(lanes)), stream);
    return cudaGetLastError();
}

template <class U>
PadBlocks<U> pad_blocks(PadGeometry<U> const& geometry, int vec)
{
    PadBlocks<U> g{};
    g.geometry = geometry;
    PadAxis<U> const& last = geometry.axes[geometry.rank - 1];
    int64_t const size = last.size, pads = int64_t(last.out.d) - size; // pads may be the larger part
    int64_t const vectors = std::max<int64_t>(std::max(size, pads) / vec, 1);
    int64_t const lanes = std::min<int64_t>(ceil_div(vectors, int64_t(kPadVectors)), kPadThreads);
    g.lanes = FastDiv<uint32_t>(uint32_t(lanes));
    g.rows = kPadThreads / int(lanes);
    g.parts = int(ceil_div(vectors, kPadVectors * lanes));
    g.bordered = int64_t(last.out.d) != last.size || last.size % vec != 0;
    return g;
}

template <class T, class U>
cudaError_t launch_pad_blocks(T const* x, T* y, int64_t elements, PadBlocks<U> const& g, cudaStream_t on)
{
    PadAxis<U> const& last = g.geometry.axes[g.geometry.rank - 1];
    int64_t const blocks = ceil_div(int64_t(g.geometry.rows), int64_t(g.rows));
    int64_t const layers = ceil_div(blocks, kMostBlocksOfY);
    if (layers > kMostBlocksOfY || uint64_t(last.out.d) >= (uint64_t(1) << 31))
        return cudaErrorInvalidValue;
    bool const stream = streams((int64_t(g.geometry.in_elements) + elements) * int64_t(sizeof(T)));
    dim3 const grid{unsigned(g.parts), unsigned(ceil_div(blocks, layers)), unsigned(layers)};
    pad_blocks_kernel<T, U><<<grid, kPadThreads, 0, on>>>(x, y, g, stream);
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
    constexpr int64_t kNarrow = int64_t(1) << 30;
    bool const wide = std::max(x.elements(), y.elements()) > kNarrow;
    if (last.plain() || last.begin < 0 || last.end < 0 || width * size_of(x.type) < kVectorBytes || width > kWidestRow)
        return PadPlan{0, wide};
    if (!streams((x.elements() + y.elements()) * size_of(x.type)))
        return PadPlan{0, wide}; // faster where both tensors stay in the L2 cache
    return PadPlan{kPadChunk, wide};
}

cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    std::vector<RawAxis> const axes = pad_axes(a, x);
    PadMode const mode = PadMode(a.mode);
    auto const launch = [&](auto tag, auto offset) {
        using T = typename decltype(tag)::type;
        using U = typename decltype(offset)::type;
        auto const* const in = static_cast<T const*>(x.data);
        auto* const out = static_cast<T*>(y.data);
        PadGeometry<U> const g = pad_geometry<U>(axes, mode);
        return plan.chunk == 0 ? launch_pad_blocks(in, out, y.elements(), pad_blocks(g, kVectorBytes / sizeof(T)), on)
                               : launch_pad_chunks(in, out, y.elements(), g, plan.chunk, on);
    };
    auto const launch_type = [&](auto tag) {
        return plan.wide ? launch(tag, Tag<uint64_t>{}) : launch(tag, Tag<uint32_t>{});
    };
    return size_of(x.type) == 4 ? launch_type(Tag<float>{}) : launch_type(Tag<__half>{}); // moved as bits
}

} // namespace surgeon
