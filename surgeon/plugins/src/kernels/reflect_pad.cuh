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
// U: uint32_t where every offset is below 2^30 (a reflection has twice its extent for a period), uint64_t beyond.
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
    PadAxis<U> axes[kMaxRank]; // the last axis last
    Index in_elements;
    U rows; // the output's, along the last axis

    __device__ PadAxis<U> const& last() const { return axes[rank - 1]; }

    // How many of `most` rows from `row` on are of its plane.
    __device__ int rows_to_plane(U row, int most) const
    {
        if (rank < 3)
            return most;
        FastDiv<U> const& plane = axes[rank - 2].out;
        return int(min(plane.d - (row - plane(row) * plane.d), U(most)));
    }

    // Where the input row begins that an output row is made of, its crop included.
    __device__ Index input_row(U row) const;
};

// Where index i of an axis of `size` is read, for any i outside [0, size).
template <class I>
__device__ __noinline__ I fold_outside(I i, I size, PadMode mode)
{
    if (mode == PadMode::kEdge)
        return i < 0 ? 0 : size - 1;
    if (mode == PadMode::kWrap)
    {
        i %= size;
        return i < 0 ? i + size : i;
    }
    bool const symmetric = mode == PadMode::kSymmetric;
    I const period = symmetric ? 2 * size : 2 * size - 2;
    if (period == 0)
        return 0; // one pixel reflects into itself
    i %= period;
    if (i < 0)
        i += period;
    return i < size ? i : (symmetric ? period - 1 : period) - i;
}

template <class I>
__device__ inline I fold(I i, I size, PadMode mode)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == PadMode::kReflect && i > -size && i < 2 * size - 1)
        return i < 0 ? -i : 2 * size - 2 - i;
    return fold_outside(i, size, mode);
}

template <class U>
__device__ inline std::make_signed_t<U> PadGeometry<U>::input_row(U row) const
{
    Index at = last().crop;
#pragma unroll 1
    for (int a = rank - 2; a >= 0; --a)
    {
        PadAxis<U> const& axis = axes[a];
        U const rest = a > 0 ? axis.out(row) : 0;
        at += (axis.crop + fold(Index(row - rest * axis.out.d) - axis.begin, axis.size, mode)) * axis.stride;
        row = rest;
    }
    return at;
}

constexpr int kPadThreads = 256, kChunkThreads = 256;
// Blocks a multiprocessor: as far as its threads and shared memory go.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kPadResident = 1, kPadBlocksResident = 4;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 800
constexpr int kPadResident = 3, kPadBlocksResident = 8;
#elif defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
constexpr int kPadResident = 2, kPadBlocksResident = 6;
#else
constexpr int kPadResident = 6, kPadBlocksResident = 8;
#endif

// The columns of a row of y that lie in a block's chunk.
struct PadColumns
{
    int start;    // where column 0 would be in the chunk
    int from, to; // the columns in the chunk

    __device__ PadColumns(int row, int width, int skipped, int count)
        : start(row * width - skipped), from(max(0, -start)), to(min(width, count - start))
    {
    }
};

// A block makes a flat piece of y, `chunk` elements: whole lines, whatever the rows. What it needs of x is one window,
// or two where its rows are of two planes that lie apart in x, as at the mirrored ends of an axis. They are brought
// into shared memory and moved to their places in the piece there, a row at a time by each group of `lanes` threads,
// interiors as vectors; the piece goes out in one copy. What lies outside the windows is read from memory.
template <class T, class U>
__global__ void __launch_bounds__(kChunkThreads, sizeof(U) == 4 ? kPadResident : (kPadResident + 1) / 2)
    pad_chunks_kernel(T const* __restrict__ x, T* __restrict__ y, PadGeometry<U> g, int64_t elements, int chunk,
        FastDiv<uint32_t> lanes, bool stream)
{
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T), PER_WORD = 4 / sizeof(T);
    constexpr int THREADS = kChunkThreads, WARPS = THREADS / 32;
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ int4 needs[WARPS];
    __shared__ Index froms[2];                // the windows, one after the other
    __shared__ int lengths[2], second_window; // the row from which on the second one is meant
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    PadAxis<U> const& last = g.last();
    Index const begin = Index(blockIdx.x) * chunk, first_row = Index(last.out(U(begin)));
    int const count = int(min(int64_t(chunk), elements - int64_t(begin))), width = int(last.out.d);
    int const before = int(last.begin), size = int(last.size);
    int const room = chunk + 4 * VEC;
    auto* const made = reinterpret_cast<Bits<T>*>(staged);         // [chunk]
    auto* const windows = made + chunk;                            // [room]
    auto* const inputs = reinterpret_cast<Index*>(windows + room); // of each row: where it begins in x
    int const skipped = int(begin - first_row * width), rows = int(last.out(U(skipped + count - 1))) + 1;
    // What is needed of x by the first plane's rows and by the others, counted from `begin`: the begin, minus the end.
    constexpr int kFar = 1 << 30;
    int split = rows, need[4] = {kFar, kFar, kFar, kFar};
#if SURGEON_DEVICE_HAS_ST_ASYNC
    __shared__ uint64_t arrived;
    uint64_t const policy = cache_policy(stream);
    if (threadIdx.x == 0)
    {
        barrier_init(&arrived);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#endif

    if (int(threadIdx.x / 32 * 32) < rows)
    {
        split = g.rows_to_plane(U(first_row), rows);
        for (int r = threadIdx.x; r < rows; r += THREADS)
        {
            PadColumns const columns(r, width, skipped, count);
            Index const input = g.input_row(U(first_row + r)), place = input - begin;
            inputs[r] = input;
            int const a = max(columns.from - before, 0), b = min(columns.to - before, size);
            if (a >= b)
                continue;
            int const low = int(min(max(place + a, Index(-kFar)), Index(kFar)));
            int const high = int(min(max(place + b, Index(-kFar)), Index(kFar)));
            need[0] = min(need[0], r < split ? low : kFar);
            need[1] = min(need[1], r < split ? -high : kFar);
            need[2] = min(need[2], r < split ? kFar : low);
            need[3] = min(need[3], r < split ? kFar : -high);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            need[i] = smallest_of_warp(need[i]);
    }
    if (threadIdx.x % 32 == 0)
        needs[threadIdx.x / 32] = make_int4(need[0], need[1], need[2], need[3]);
    __syncthreads();
    if (threadIdx.x == 0)
    {
#pragma unroll
        for (int w = 1; w < WARPS; ++w)
        {
            int4 const n = needs[w];
            need[0] = min(need[0], n.x);
            need[1] = min(need[1], n.y);
            need[2] = min(need[2], n.z);
            need[3] = min(need[3], n.w);
        }
        // Whole vectors; x's last elements may not fill one.
        auto const first = [&](int low) { return max(begin + low, Index(0)) / VEC * VEC; };
        auto const length = [&](Index from, int low, int minus_high) {
            Index const to = min((begin - minus_high + VEC - 1) / VEC * VEC, g.in_elements / VEC * VEC);
            return low < -minus_high ? int(min(max(to - from, Index(0)), Index(room + 1))) : 0;
        };
        int const low = min(need[0], need[2]), minus_high = min(need[1], need[3]);
        Index from = first(low), second_from = from;
        int elements_of_first = length(from, low, minus_high), elements_of_second = 0;
        bool const two = elements_of_first > room;
        if (two)
        {
            from = first(need[0]);
            second_from = first(need[2]);
            elements_of_first = length(from, need[0], need[1]);
            elements_of_second = length(second_from, need[2], need[3]);
            if (elements_of_first + elements_of_second > room)
                elements_of_first = elements_of_second = 0;
        }
        froms[0] = from;
        froms[1] = second_from;
        lengths[0] = elements_of_first;
        lengths[1] = elements_of_second;
        second_window = two ? split : rows;
#if SURGEON_DEVICE_HAS_ST_ASYNC
        unsigned const bytes = unsigned(elements_of_first) * unsigned(sizeof(T));
        unsigned const second_bytes = unsigned(elements_of_second) * unsigned(sizeof(T));
        bulk_announce(bytes + second_bytes, &arrived);
        bulk_load(windows, x + from, bytes, &arrived, policy);
        bulk_load(windows + elements_of_first, x + second_from, second_bytes, &arrived, policy);
#endif
    }
    __syncthreads();
#if SURGEON_DEVICE_HAS_ST_ASYNC
    barrier_wait(&arrived, 0);
#else
    for (int i = 0; i < 2; ++i)
        for (int e = threadIdx.x * VEC; e < lengths[i]; e += THREADS * VEC)
            __pipeline_memcpy_async(windows + i * lengths[0] + e, x + froms[i] + e, kVectorBytes);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
#endif

    int const group = int(lanes(threadIdx.x)), lane = int(threadIdx.x) - group * int(lanes.d);
    int const groups = int(lanes(THREADS));
    auto const* window = windows;
    Index from = froms[0], to = from + lengths[0];
    int until = second_window;
    for (int r = group < groups ? group : rows; r < rows; r += groups)
    {
        if (r >= until)
        {
            window = windows + lengths[0];
            from = froms[1];
            to = from + lengths[1];
            until = rows;
        }
        PadColumns const columns(r, width, skipped, count);
        Index const input = inputs[r];
        int const a = max(columns.from, before), b = min(columns.to, before + size), end = columns.start + columns.to;
        bool const brought = input + (a - before) >= from && input + (b - before) <= to;
        int lo = end, hi = end; // the whole vectors of the interior, counted in the chunk
        // Words of x itself are not read where x's last one may not be full.
        if (a < b && (brought || input + (b - before) + VEC <= g.in_elements))
        {
            lo = ceil_div(columns.start + a, VEC) * VEC;
            hi = (columns.start + b) / VEC * VEC;
            if (lo >= hi)
                lo = hi = end;
        }
        Index const source = input - before - columns.start + lo; // of the first
        auto* const vectors = reinterpret_cast<uint4*>(made + lo);
        int const count_vectors = (hi - lo) / VEC;
        auto const move = [&](Bits<T> const* from_here, int half) {
            auto const* const words = reinterpret_cast<unsigned const*>(from_here);
            for (int j = lane; j < count_vectors; j += int(lanes.d))
            {
                unsigned w[5];
#pragma unroll
                for (int i = 0; i < 3 + PER_WORD; ++i)
                    w[i] = words[4 * j + i];
                if constexpr (PER_WORD == 2)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        w[i] = __funnelshift_r(w[i], w[i + 1], 16 * half);
                vectors[j] = make_uint4(w[0], w[1], w[2], w[3]);
            }
        };
        int const half = int(source & (PER_WORD - 1));
        if (brought)
            move(window + (source - half - from), half);
        else
            move(in + (source - half), half);
        int const head = lo - columns.start - columns.from, others = head + end - hi;
        for (int slot = lane; slot < others; slot += int(lanes.d))
        {
            int const o = slot < head ? columns.start + columns.from + slot : hi + slot - head;
            Index const at = input + fold(Index(o - columns.start) - before, Index(size), g.mode);
            made[o] = at >= from && at < to ? window[at - from] : __ldg(in + at);
        }
    }

    int const whole = count / VEC * VEC;
#if SURGEON_DEVICE_HAS_ST_ASYNC
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        bulk_store(y + begin, made, unsigned(whole) * unsigned(sizeof(T)), policy);
#else
    __syncthreads();
    for (int e = threadIdx.x * VEC; e < whole; e += THREADS * VEC)
        Vector<T>::of_shared(reinterpret_cast<T const*>(made) + e).store(y + begin + e, stream);
#endif
    if (whole + int(threadIdx.x) < count)
        reinterpret_cast<Bits<T>*>(y)[begin + whole + threadIdx.x] = made[whole + threadIdx.x];
#if SURGEON_DEVICE_HAS_ST_ASYNC
    if (threadIdx.x == 0)
        bulk_stores_have_read();
#endif
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

// The other mapping: groups of threads for a row of y each, or a block for a part of one.
template <class U>
struct PadBlocks
{
    PadGeometry<U> geometry;
    FastDiv<uint32_t> lanes; // neighbouring threads that share a row
    int rows;                // that a block makes, or:
    int parts;               // blocks that share a row: the grid's x; its y and z are the rows
    bool bordered;           // elements lie outside the whole vectors of the rows' interiors
};

constexpr int kPadVectors = 2; // of a thread

// y's vectors are aligned, x's start anywhere: each is spliced from two of x. All of a thread's loads are on their way
// before the first is waited for. The elements before and after the vectors come last, for the most from the L1 cache.
template <class T, class U>
__global__ void __launch_bounds__(kPadThreads, sizeof(U) == 4 ? kPadBlocksResident : kPadBlocksResident / 2)
    pad_blocks_kernel(T const* __restrict__ x, T* __restrict__ y, PadBlocks<U> g, bool stream)
{
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T), VECTORS = kPadVectors;
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    auto* const out = reinterpret_cast<Bits<T>*>(y);
    PadAxis<U> const& last = g.geometry.last();
    int const lanes = int(g.lanes.d), group = int(g.lanes(threadIdx.x)), lane = int(threadIdx.x) - group * lanes;
    U const row = (U(blockIdx.z) * gridDim.y + blockIdx.y) * U(g.rows) + U(group);
    if (group >= g.rows || row >= g.geometry.rows)
        return;
    Index const begin = Index(row * last.out.d), input = g.geometry.input_row(row) - last.begin;
    // The whole vectors of the interior, which is the part inside the (cropped) input.
    Index const from = Index(U(begin + last.begin + VEC - 1) / VEC);
    Index const end = Index(U(begin + last.begin + last.size) / VEC);
    uint4 a[VECTORS], b[VECTORS];
    Index to[VECTORS]; // -1: none
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
    {
        Index const j = from + Index(blockIdx.x * VECTORS + k) * lanes + lane;
        Index const at = input + j * VEC - begin, whole = at & ~Index(VEC - 1);
        to[k] = j < end ? j * VEC : -1;
        if (to[k] < 0)
            continue;
        a[k] = __ldg(reinterpret_cast<uint4 const*>(x + whole));
        if (at == whole)
            continue;
        if (whole + 2 * VEC <= g.geometry.in_elements)
            b[k] = __ldg(reinterpret_cast<uint4 const*>(x + whole + VEC));
        else // the tensor's last vector is not full
        {
            for (int e = 0; e < VEC; ++e)
                out[to[k] + e] = in[at + e];
            to[k] = -1;
        }
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        if (to[k] >= 0)
            spliced<T>(a[k], b[k], int((input + to[k] - begin) & (VEC - 1))).store(y + to[k], stream);
    if (!g.bordered || blockIdx.x > 0)
        return;
    int const width = int(last.out.d), skipped = end > from ? int(end - from) * VEC : 0;
    int const head = end > from ? int(from * VEC - begin) : width;
    for (int slot = lane; slot < width - skipped; slot += lanes)
    {
        int const column = slot < head ? slot : slot + skipped;
        Index const source = last.begin + fold(Index(column) - last.begin, last.size, g.geometry.mode);
        out[begin + column] = __ldg(in + input + source);
    }
}

} // namespace surgeon
