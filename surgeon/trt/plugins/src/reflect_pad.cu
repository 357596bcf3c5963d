#include "launch.h"

#include <algorithm>
#include <vector>

namespace surgeon
{

namespace
{

constexpr int64_t kMostBlocksOfY = 65535; // and of z
constexpr int kPadChunk = 16 << 10;
template <class U>
constexpr int64_t kMostUnits = 32 * kUnitsOfLane<U> * kUnitSharers; // of a chunk

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
    g.sign = mode == PadMode::kWrap ? 1 : mode == PadMode::kEdge ? 0 : -1;
    g.in_elements = 1;
    g.rows = 1;
    for (int i = g.rank - 1; i >= 0; --i)
    {
        RawAxis const& a = axes[i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        U const out = U(a.in + a.begin + a.end);
        Index const size = Index(a.in - crop - crop_end), twice = mode == PadMode::kSymmetric ? 1 : 0;
        Index const below = mode == PadMode::kWrap ? size : -twice;
        Index const above = mode == PadMode::kWrap ? -size : mode == PadMode::kEdge ? size - 1 : 2 * size - 2 + twice;
        g.axes[i] = PadAxis<U>{
            FastDiv<U>(out), Index(std::max<int64_t>(a.begin, 0)), size, below, above, g.in_elements};
        g.origin += Index(crop) * g.in_elements;
        g.in_elements *= Index(a.in);
        g.rows *= i < g.rank - 1 ? out : 1;
    }
    return g;
}

// The shared memory of a block.
template <class T, class U>
size_t units_bytes(PadUnits<U> const& g)
{
    return 2 * (size_t(g.words) * 32 * kUnitWarps * 4 + kPadLine + size_t(g.room) * sizeof(T)
        + size_t(g.units) * unit_place_bytes<T>(g));
}

// Whether units of `unit` elements of y can be brought by stretches along the axis before theirs: where nothing is
// reflected twice, most of x is needed, and 32 bits count the axis.
template <class U>
bool in_stretches(PadAxis<U> const& axis, PadMode mode, int64_t unit)
{
    int64_t const size = axis.size, begin = axis.begin, end = int64_t(axis.out.d) - begin - size;
    int64_t const most = mode == PadMode::kReflect ? size - 1 : size;
    return (mode == PadMode::kEdge || std::max(begin, end) <= most) && int64_t(axis.stride) * 8 <= unit * 9
        && int64_t(axis.out.d) < int64_t(1) << 30;
}

// So many units touch no more planes than lanes have stretches of.
template <class U>
int64_t most_in_stretches(PadAxis<U> const& axis)
{
    return (kMostStretches / kStretchesOfPlane - 2) * int64_t(axis.out.d);
}

// The units of a chunk, and what the parts of x that they need take at most, in elements. By stretches each of these
// begins and ends with a part of a line; else there is a vector before and after each unit's, and some lines for every
// warp, to begin in them as in memory. One warp brings what it can by a unit a lane, so that nothing comes twice; more
// is shared out.
template <class T, class U>
void set_units(PadUnits<U>& g, int units)
{
    constexpr int vec = kVectorBytes / int(sizeof(T)), line = kPadLine / int(sizeof(T));
    g.units = units;
    g.share = units <= 32 ? units : ceil_div(units, kUnitSharers);
    int const warps = ceil_div(units, g.share);
    g.room = (ceil_div(warps * g.share * (g.span + 2 * vec), line) + kUnitCongruent * warps) * line;
    if (!g.stretched)
        return;
    PadAxis<U> const& axis = g.geometry.axes[g.axis - 1];
    int64_t const of_plane = 1 + (axis.begin > 0) + (int64_t(axis.out.d) > int64_t(axis.begin + axis.size));
    int64_t const stretches = of_plane * ceil_div(int64_t(units - 1), int64_t(axis.out.d)) + 1;
    int64_t const more = std::max<int64_t>(g.span - int64_t(axis.stride), 0) + 2 * line + vec;
    g.room = int(ceil_div(units * int64_t(axis.stride) + stretches * more, int64_t(line))) * line;
}

constexpr int64_t kFewUnits = 32, kManyUnits = 1024; // of a chunk
constexpr int64_t kMostStretched = 4096;             // of a chunk, as far as 16 bits name their places

// No units where a chunk is not even a row, or much of x lies between what is needed of it.
template <class T, class U>
PadUnits<U> pad_units(PadGeometry<U> const& geometry, int64_t elements, int chunk_bytes)
{
    constexpr int64_t size = sizeof(T), vec = kVectorBytes / size;
    auto const* const axes = geometry.axes;
    int64_t const chunk = chunk_bytes / size;
    PadUnits<U> g{};
    g.geometry = geometry;
    g.width = FastDiv<uint32_t>(uint32_t(axes[geometry.rank - 1].out.d));
    int64_t units = 0, best = 0;
    // Units as large as can be, but not where they make less than three quarters of the chunk that smaller ones do. Of
    // more than kManyUnits it takes so long to say where they are that a chunk is worth no more than with as many.
    auto const consider = [&](int axis, int64_t pack, int64_t unit, int64_t span) {
        bool const stretches = pack == 1 && axis > 0 && in_stretches(axes[axis - 1], geometry.mode, unit);
        int64_t most = kMostUnits<U>;
        if (stretches)
            most = std::max(most, std::min(kMostStretched, most_in_stretches(axes[axis - 1])));
        int64_t const together = unit * size % 4 ? 2 : 1; // a chunk is whole words
        int64_t const all = ceil_div(elements, unit) + together - 1;
        int64_t const count = std::min({chunk / unit, most, all}) / together * together;
        if (count == 0 || span > unit * 9 / 8 + 8 * vec || span * size >= 65536)
            return;
        int64_t const worth = std::min(count, kManyUnits) * unit;
        if (worth * 4 < best * 3)
            return;
        best = worth;
        units = count;
        g.axis = axis;
        g.pack = int(pack);
        g.unit = FastDiv<uint32_t>(uint32_t(unit));
        g.span = int(span);
        g.stretched = stretches && units > kFewUnits && units <= most_in_stretches(axes[axis - 1]);
    };
    int64_t unit = 1, span = 1;
    for (int a = geometry.rank - 1; a >= 0 && unit * int64_t(axes[a].out.d) <= chunk; --a)
    {
        unit *= int64_t(axes[a].out.d);
        span += int64_t(axes[a].size - 1) * axes[a].stride;
        consider(a, 1, unit, span);
        // Neighbours along the first axis, where that is as x's.
        if (a != 1 || axes[0].begin != 0 || int64_t(axes[0].out.d) != int64_t(axes[0].size))
            continue;
        int64_t pack = std::min(chunk / unit, int64_t(axes[0].out.d));
        pack -= unit * size % 4 ? pack % 2 : 0;
        if (pack > 1)
            consider(a, pack, unit * pack, span + (pack - 1) * axes[0].stride);
    }
    if (units == 0)
        return g;
    g.step = g.pack > 1 ? int(axes[0].stride) : 0;
    g.count = U(ceil_div(elements, int64_t(g.unit.d)));
    g.words = int(ceil_div(units * int64_t(g.unit.d) * size, int64_t(4 * 32 * kUnitWarps * kUnitPiece))) * kUnitPiece;
    set_units<T>(g, int(units));
    int const together = g.unit.d * size % 4 ? 2 : 1;
    // As many blocks a multiprocessor as of any shape.
    while (g.units > together && units_bytes<T>(g) > size_t(chunk_bytes) / 8 * 37)
        set_units<T>(g, g.units - together);
    g.chunks = unsigned(ceil_div(int64_t(g.count), int64_t(g.units)));
    return g;
}

template <class T, class U>
cudaError_t launch_pad_units(
    T const* x, T* y, int64_t elements, PadUnits<U> const& g, void* workspace, unsigned* tickets, cudaStream_t on)
{
    size_t const shared = units_bytes<T>(g);
    auto* const kernel = pad_units_kernel<T, U>;
    int count = 0;
    cudaError_t status = resident_blocks(kernel, kUnitThreads, shared, count);
    if (status != cudaSuccess || count == 0)
        return status != cudaSuccess ? status : cudaErrorInvalidConfiguration;
    unsigned const blocks = std::min(g.chunks, unsigned(count));
    status = ready_tickets(tickets, g.chunks > 2 * blocks, workspace, on);
    if (status != cudaSuccess)
        return status;
    bool const stream = streams((int64_t(g.geometry.in_elements) + elements) * int64_t(sizeof(T)));
    return launch_kernel(kernel, blocks, kUnitThreads, shared, on, x, y, g, elements, tickets, stream);
}

template <class U>
PadBlocks<U> pad_blocks(PadGeometry<U> const& geometry, int vec)
{
    PadBlocks<U> g{};
    g.geometry = geometry;
    PadAxis<U> const& last = geometry.axes[geometry.rank - 1];
    int64_t const size = last.size, pads = int64_t(last.out.d) - size; // pads may be the larger part
    int64_t const vectors = std::max<int64_t>(std::max(size, pads) / vec, 1);
    // Fewer lanes, at least a warp's, and more parts where a block's threads come out clearly better.
    int64_t lanes = std::min<int64_t>(ceil_div(vectors, int64_t(kPadVectors)), kPadThreads);
    auto const parts_of = [&](int64_t some) { return ceil_div(vectors, kPadVectors * some); };
    for (int64_t some = lanes - 1; some >= 32; --some)
        if (kPadThreads / some * parts_of(lanes) * 16 > kPadThreads / lanes * parts_of(some) * 17)
            lanes = some;
    g.lanes = FastDiv<uint32_t>(uint32_t(lanes));
    g.rows = kPadThreads / int(lanes);
    g.parts = int(parts_of(lanes));
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
    KernelLaunch const launch(grid, kPadThreads, 0, 1, on);
    return cudaLaunchKernelEx(&launch.config, pad_blocks_kernel<T, U>, x, y, g, stream);
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
    constexpr int64_t kNarrow = int64_t(1) << 30, kLongRow = 256, kFewPads = 32;
    bool const wide = std::max(x.elements(), y.elements()) > kNarrow;
    int64_t const pads = std::max<int64_t>(last.begin, 0) + std::max<int64_t>(last.end, 0);
    // Rows that are mostly whole vectors, shorter ones without pads that fill groups of threads (but of 128 bytes: in
    // fp32 chunks are 0.02 better there), and in tensors that stay in the L2 cache those of some lines. Of these the
    // small ones are over before blocks that stay have found the sources of their words: there shorter rows too, and
    // chunks of half as many words.
    int64_t const bytes = last.in * size_of(x.type), vectors = bytes / kVectorBytes;
    bool const stream = streams((x.elements() + y.elements()) * size_of(x.type));
    bool const filled = bytes >= 2 * kSectorBytes && bytes != kLineBytes
        && next_power_of_two(vectors) * kVectorBytes == bytes;
    constexpr int64_t kShortRows = 24 << 10, kSmallChunks = 64 << 10; // of y, a multiprocessor
    auto const small = [&](int64_t share) {
        return !stream && y.elements() * size_of(x.type) <= share * device().multiprocessors;
    };
    bool const short_rows = small(kShortRows) && pads * 4 <= last.in;
    int64_t const in_cache = short_rows ? 2 * kSectorBytes : 2 * kLineBytes;
    // Two chunks and what they need, of three blocks.
    int64_t const most = std::min<int64_t>(device().shared_bytes / 14 / 4096 * 4096, kPadChunk),
                  chunk = small(kSmallChunks) ? std::min<int64_t>(kPadChunk / 2, most) : most;
    // Rows that y has more often than x, and that fill chunks, are read once for some of y.
    int64_t const row_bytes = (last.in + last.begin + last.end) * size_of(x.type);
    bool const repeated = !last.plain() && y.elements() * 8 >= x.elements() * 9
        && chunk / row_bytes * row_bytes * 10 >= chunk * 9;
    if ((last.in >= kLongRow && pads * kFewPads <= last.in && !repeated) || (last.plain() && filled)
        || (!stream && bytes >= in_cache))
        return PadPlan{0, wide};
    return PadPlan{int(chunk), wide};
}

cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, void* workspace,
    unsigned* tickets, cudaStream_t on)
{
    std::vector<RawAxis> const axes = pad_axes(a, x);
    if (axes.size() == 1 && axes[0].plain())
        return cudaMemcpyAsync(y.data, x.data, x.elements() * size_of(x.type), cudaMemcpyDeviceToDevice, on);
    PadMode const mode = PadMode(a.mode);
    auto const launch = [&](auto tag, auto offset) {
        using T = typename decltype(tag)::type;
        using U = typename decltype(offset)::type;
        auto const* const in = static_cast<T const*>(x.data);
        auto* const out = static_cast<T*>(y.data);
        PadGeometry<U> const g = pad_geometry<U>(axes, mode);
        PadUnits<U> const units = pad_units<T>(g, y.elements(), std::min(plan.chunk, kPadChunk));
        return units.units == 0
            ? launch_pad_blocks(in, out, y.elements(), pad_blocks(g, kVectorBytes / sizeof(T)), on)
            : launch_pad_units(in, out, y.elements(), units, workspace, tickets, on);
    };
    auto const launch_type = [&](auto tag) {
        return plan.wide ? launch(tag, Tag<uint64_t>{}) : launch(tag, Tag<uint32_t>{});
    };
    return size_of(x.type) == 4 ? launch_type(Tag<float>{}) : launch_type(Tag<__half>{}); // moved as bits
}

} // namespace surgeon
