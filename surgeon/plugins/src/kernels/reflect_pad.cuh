// ReflectPad: all four modes, on any axes.
#pragma once

#include "common.cuh"

namespace surgeon
{

enum class PadMode : int32_t
{
    kReflect = 0,   // 3 2 1 | 0 1 2 3 | 2 1 0
    kSymmetric = 1, // 2 1 0 | 0 1 2 3 | 3 2 1
    kEdge = 2,      // 0 0 0 | 0 1 2 3 | 3 3 3
    kWrap = 3,      // 1 2 3 | 0 1 2 3 | 0 1 2
};

// One axis: the output index o reads the input at crop + fold(o - begin), where [0, size) is what the crops left.
// U: uint32_t where every offset is below 2^31, uint64_t beyond.
template <class U>
struct PadAxis
{
    using Index = std::make_signed_t<U>;
    FastDiv<U> out; // the output's extent
    Index begin, size, crop;
    Index stride; // the input's, in elements
};

template <class U>
struct PadGeometry
{
    using Index = std::make_signed_t<U>;
    int rank;
    PadMode mode;
    PadAxis<U> axes[kMaxRank]; // the last axis first
    U elements;                // of the output
    Index in_elements;
};

template <class I>
__device__ inline I fold(I i, I size, PadMode mode)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == PadMode::kEdge)
        return i < 0 ? 0 : size - 1;
    if (mode == PadMode::kWrap)
    {
        i = i < 0 ? i + size : i - size;
        if (i >= 0 && i < size)
            return i;
        i %= size;
        return i < 0 ? i + size : i;
    }
    bool const symmetric = mode == PadMode::kSymmetric;
    I const period = symmetric ? 2 * size : 2 * size - 2;
    if (period == 0)
        return 0; // one pixel reflects into itself
    if (i < -size || i >= period)
        i %= period;
    if (i < 0)
        i = symmetric ? -1 - i : -i;
    return i < size ? i : (symmetric ? period - 1 : period) - i;
}

// Where the input row begins that an output row is made of, its crop included.
template <class U>
__device__ inline std::make_signed_t<U> input_row(PadGeometry<U> const& g, U row)
{
    using Index = std::make_signed_t<U>;
    Index at = g.axes[0].crop;
#pragma unroll
    for (int a = 1; a < kMaxRank; ++a)
    {
        if (a >= g.rank)
            break;
        PadAxis<U> const& axis = g.axes[a];
        U const rest = axis.out(row);
        at += (axis.crop + fold(Index(row - rest * axis.out.d) - axis.begin, axis.size, g.mode)) * axis.stride;
        row = rest;
    }
    return at;
}

// The 16 bytes that begin `shift` elements into the 32 of a and b.
template <class T>
__device__ inline Vector<T> spliced(uint4 const& a, uint4 const& b, int shift)
{
    unsigned w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    int const bytes = shift * int(sizeof(T));
    if (bytes & 8)
#pragma unroll
        for (int i = 0; i < 6; ++i)
            w[i] = w[i + 2];
    if (bytes & 4)
#pragma unroll
        for (int i = 0; i < 5; ++i)
            w[i] = w[i + 1];
    if (sizeof(T) == 2 && (bytes & 2))
#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = __funnelshift_r(w[i], w[i + 1], 16);
    Vector<T> v;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v.words[i] = w[i];
    return v;
}

constexpr int kPadThreads = 256, kPadEdges = 2;

// A group of `lanes` neighbouring threads makes ROWS segments of rows of y. A segment is up to lanes * PACKS whole
// vectors of the row's interior (its part inside the cropped input), each of them two aligned loads, spliced; the first
// segment of a row also makes the elements outside them. What a row has in common is worked out once, and nothing is
// stored before all the loads are on their way.
template <class T, class U, int ROWS, int PACKS>
__global__ void __launch_bounds__(kPadThreads)
    pad_kernel(T const* __restrict__ x, T* __restrict__ y, PadGeometry<U> g, FastDiv<U> segments, U items, int lanes,
        bool stream)
{
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T);
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    auto* const out = reinterpret_cast<Bits<T>*>(y);
    PadAxis<U> const& last = g.axes[0];
    U const width = last.out.d, first = (U(blockIdx.x) * (kPadThreads / lanes) + threadIdx.x / lanes) * ROWS;
    int const lane = threadIdx.x % lanes;

    uint4 low[ROWS][PACKS], high[ROWS][PACKS];
    int shift[ROWS], left[ROWS]; // left: vectors of the row from this thread's first on
    U to[ROWS];                  // that vector
    Bits<T> edges[ROWS][kPadEdges];
    U edge_to[ROWS][kPadEdges];
#pragma unroll
    for (int q = 0; q < ROWS; ++q)
    {
        U const row = segments(first + q), begin = row * width;
        bool const exists = first + q < items;
        U const from = (begin + U(last.begin) + VEC - 1) / VEC, end = (begin + U(last.begin) + U(last.size)) / VEC;
        bool const vectors = exists && end > from;
        Index const input = exists ? input_row(g, row) : 0;
        U const segment = first + q - row * segments.d;
        to[q] = from + segment * U(lanes * PACKS) + lane;
        left[q] = vectors ? int(min(Index(end) - Index(to[q]), Index(PACKS * lanes))) : 0;
        Index const at = input + Index(to[q] * VEC - begin) - last.begin, start = at & ~Index(VEC - 1);
        shift[q] = int(at - start);
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
        {
            Index const here = start + p * lanes * VEC;
            if (p * lanes >= left[q])
                continue;
            if (shift[q] != 0 && here + 2 * VEC > g.in_elements) // x's last vector has no successor
            {
                for (int k = 0; k < VEC; ++k)
                    out[(to[q] + p * lanes) * VEC + k] = in[here + shift[q] + k];
                left[q] = p * lanes;
                continue;
            }
            low[q][p] = __ldg(reinterpret_cast<uint4 const*>(x + here));
            // No branch: to fill `high` from `low` would wait for it.
            high[q][p] = __ldg(reinterpret_cast<uint4 const*>(x + here + (shift[q] ? VEC : 0)));
        }
        U const head = vectors ? from * VEC - begin : width, tail = vectors ? begin + width - end * VEC : 0;
        U const borders = exists && segment == 0 ? head + tail : 0;
        auto const column = [&](U slot) { return slot < head ? slot : width - tail + (slot - head); };
        auto const source = [&](U c) { return input + fold(Index(c) - last.begin, last.size, g.mode); };
#pragma unroll
        for (int k = 0; k < kPadEdges; ++k)
        {
            U const slot = lane + k * lanes;
            edge_to[q][k] = g.elements;
            if (slot >= borders)
                continue;
            U const c = column(slot);
            edge_to[q][k] = begin + c;
            edges[q][k] = __ldg(in + source(c));
        }
        for (U slot = lane + kPadEdges * lanes; slot < borders; slot += lanes)
            out[begin + column(slot)] = __ldg(in + source(column(slot)));
    }
#pragma unroll
    for (int q = 0; q < ROWS; ++q)
    {
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
            if (p * lanes < left[q])
                spliced<T>(low[q][p], high[q][p], shift[q]).store(y + (to[q] + p * lanes) * VEC, stream);
#pragma unroll
        for (int k = 0; k < kPadEdges; ++k)
            if (edge_to[q][k] < g.elements)
                out[edge_to[q][k]] = edges[q][k];
    }
}

// The same for a block of threads a few rows; always with 64-bit offsets.
struct PadBlocks
{
    int rank;
    PadMode mode;
    PadAxis<uint64_t> axes[kMaxRank]; // the last axis last
    int64_t in_elements;
    uint64_t rows;              // the output's, along the last axis
    int rows_a_block;           // at most kPadThreads
    int segment;                // vectors of a row that one block copies (more than one block a row: rows_a_block is 1)
    FastDiv<uint32_t> vectors;  // the most whole vectors of a row's interior, within a segment
    FastDiv<uint32_t> border;   // the most elements of a row outside them
};

// 16 bytes from any element offset of an aligned tensor; false where that would read past the tensor's end.
template <class T>
__device__ inline bool load_anywhere(T const* x, int64_t at, int64_t elements, Vector<T>& v)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const shift = int(at % VEC);
    int64_t const first = at - shift;
    if (shift == 0)
    {
        v = Vector<T>::load(x + first, false);
        return true;
    }
    if (first + 2 * VEC > elements)
        return false;
    uint4 const a = __ldg(reinterpret_cast<uint4 const*>(x + first));
    uint4 const b = __ldg(reinterpret_cast<uint4 const*>(x + first + VEC));
    v = spliced<T>(a, b, shift);
    return true;
}

// What the threads of a block share of a row of the output, whose interior is its part inside the (cropped) input.
struct PadRow
{
    int64_t input;  // where the cropped row begins in x
    int64_t vector; // the first whole vector of the interior, of y
    int vectors;    // how many; 0: the whole row is border
    int head, tail; // elements of the row before the first and after the last of them
};

// Four-byte elements. The whole vectors of the rows' interiors are copied as vectors (y's are aligned, x's start
// anywhere); the elements before and after them are spread over the block.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_blocks_kernel(T const* __restrict__ x, T* __restrict__ y, PadBlocks g, bool stream)
{
    constexpr unsigned VEC = kVectorBytes / sizeof(T), UNROLL = 4;
    __shared__ PadRow shared[kPadThreads];
    PadAxis<uint64_t> const& last = g.axes[g.rank - 1];
    uint64_t const first_row = uint64_t(blockIdx.x) * g.rows_a_block;
    int const rows = int(min(uint64_t(g.rows_a_block), g.rows - first_row));
    uint64_t const width = last.out.d;
    if (threadIdx.x < rows)
    {
        uint64_t row = first_row + threadIdx.x;
        uint64_t const begin = row * width, from = (begin + last.begin + VEC - 1) / VEC,
                       to = (begin + last.begin + last.size) / VEC;
        PadRow mine;
        mine.input = last.crop;
        mine.vector = int64_t(from);
        mine.vectors = to > from ? int(to - from) : 0;
        mine.head = mine.vectors ? int(from * VEC - begin) : int(width);
        mine.tail = mine.vectors ? int(begin + width - to * VEC) : 0;
#pragma unroll
        for (int a = kMaxRank - 2; a >= 0; --a)
        {
            if (a > g.rank - 2)
                continue;
            PadAxis<uint64_t> const& axis = g.axes[a];
            uint64_t const rest = axis.out(row);
            mine.input
                += (axis.crop + fold(int64_t(row - rest * axis.out.d) - axis.begin, axis.size, g.mode)) * axis.stride;
            row = rest;
        }
        shared[threadIdx.x] = mine;
    }
    __syncthreads();

    int const skipped = blockIdx.y * g.segment;
    unsigned const vectors = rows * g.vectors.d;
    for (unsigned i = threadIdx.x; i < vectors; i += UNROLL * kPadThreads)
    {
        Vector<T> v[UNROLL];
        int64_t to[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
        {
            unsigned const item = i + u * kPadThreads, r = g.vectors(item);
            to[u] = -1;
            if (item >= vectors)
                continue;
            PadRow const& row = shared[r];
            int const j = skipped + int(item - r * g.vectors.d);
            if (j >= row.vectors)
                continue;
            int64_t const at = row.input + row.head - last.begin + int64_t(j) * VEC;
            to[u] = (row.vector + j) * VEC;
            if (load_anywhere(x, at, g.in_elements, v[u]))
                continue;
            for (unsigned k = 0; k < VEC; ++k) // x's last vector, beyond which there is nothing to read
                y[to[u] + k] = x[at + k];
            to[u] = -1;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            if (to[u] >= 0)
                v[u].store(y + to[u], stream);
    }
    unsigned const borders = blockIdx.y == 0 ? rows * g.border.d : 0;
    for (unsigned i = threadIdx.x; i < borders; i += kPadThreads)
    {
        unsigned const r = g.border(i);
        int const slot = int(i - r * g.border.d);
        PadRow const& row = shared[r];
        if (slot >= row.head + row.tail)
            continue;
        int64_t const column = slot < row.head ? int64_t(slot) : int64_t(width) - row.tail + (slot - row.head);
        y[int64_t(first_row + r) * int64_t(width) + column]
            = x[row.input + fold(column - last.begin, last.size, g.mode)];
    }
}

} // namespace surgeon
