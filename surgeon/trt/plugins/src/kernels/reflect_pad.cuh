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

// One axis: the output index o reads the input at fold(o - begin), where [0, size) is what the crops left.
// U: uint32_t where every offset is below 2^30 (a reflection has twice its extent for a period), uint64_t beyond.
template <class U>
struct PadAxis
{
    using Index = std::make_signed_t<U>;
    FastDiv<U> out; // the output's extent
    Index begin, size;
    Index below, above; // what an index before 0, or from `size` on, turned by the geometry's sign, is to be moved by
    Index stride;       // the input's, in elements
};

// Where index i of an axis of `size` is read, for any i.
template <class I>
__device__ __noinline__ I fold_again(I i, I size, PadMode mode)
{
    if (mode == PadMode::kEdge)
        return min(max(i, I(0)), size - 1);
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
__device__ inline I smallest_of_warp(I v)
{
    for (int step = 16; step > 0; step /= 2)
        v = min(v, __shfl_xor_sync(kWholeWarp, v, step));
    return v;
}

template <class U>
struct PadGeometry
{
    using Index = std::make_signed_t<U>;
    int rank;
    PadMode mode;
    int sign;                  // of an index outside: -1 where it is reflected, 0 where it does not matter, else 1
    PadAxis<U> axes[kMaxRank]; // the last axis last
    Index in_elements;
    Index origin; // the first element of x that the crops left
    U rows;       // the output's, along the last axis

    __device__ PadAxis<U> const& last() const { return axes[rank - 1]; }

    // Where indices of an axis are read.
    template <int N>
    __device__ void fold(Index (&i)[N], PadAxis<U> const& axis) const
    {
        Index folded[N];
        bool outside = false;
#pragma unroll
        for (int k = 0; k < N; ++k)
        {
            Index const once = i[k] * sign + (i[k] < 0 ? axis.below : axis.above);
            folded[k] = U(i[k]) < U(axis.size) ? i[k] : once;
            outside |= U(folded[k]) >= U(axis.size);
        }
#pragma unroll
        for (int k = 0; k < N; ++k)
            i[k] = outside ? fold_again(i[k], axis.size, mode) : folded[k];
    }
    __device__ Index fold(Index i, PadAxis<U> const& axis) const
    {
        Index one[1] = {i};
        fold(one, axis);
        return one[0];
    }

    // Where those parts of the input begin that the output's parts `index` are made of, when its first `count` axes are
    // taken in turn.
    template <int N>
    __device__ void inputs(U (&index)[N], int count, Index (&at)[N]) const
    {
#pragma unroll
        for (int k = 0; k < N; ++k)
            at[k] = origin;
#pragma unroll 1
        for (int a = count - 1; a >= 0; --a)
        {
            PadAxis<U> const& axis = axes[a];
            Index of_axis[N];
#pragma unroll
            for (int k = 0; k < N; ++k)
            {
                U const rest = a > 0 ? axis.out(index[k]) : 0;
                of_axis[k] = Index(index[k] - rest * axis.out.d) - axis.begin;
                index[k] = rest;
            }
            fold(of_axis, axis);
#pragma unroll
            for (int k = 0; k < N; ++k)
                at[k] += of_axis[k] * axis.stride;
        }
    }
    __device__ Index input(U index, int count) const
    {
        U indices[1] = {index};
        Index at[1];
        inputs(indices, count, at);
        return at[0];
    }

    // Where the input row begins that an output row is made of.
    __device__ Index input_row(U row) const { return input(row, rank - 1); }
};

constexpr int kUnitWarps = 8, kUnitSharers = 2, kUnitBringers = 2 * kUnitSharers;
constexpr int kUnitThreads = 32 * (kUnitWarps + kUnitBringers + 1);
constexpr int kUnitWords = 16, kUnitPiece = 4; // of a thread: at most, and at a time
// Of a lane that brings, at most, as far as registers go.
template <class U>
constexpr int kUnitsOfLane = sizeof(U) == 4 ? 4 : 2;
constexpr int kPadLine = 128;
constexpr int kUnitCongruent = 4; // runs that a warp brings to where they lie in lines as in memory
constexpr int kStretchesOfPlane = 3, kMostStretches = 32; // of a chunk: one a lane
// Blocks a multiprocessor: as far as its threads, registers and shared memory go.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kUnitBlocks = 2, kPadBlocksResident = 4;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int kUnitBlocks = 3, kPadBlocksResident = 8;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800
constexpr int kUnitBlocks = 2, kPadBlocksResident = 6;
#else
constexpr int kUnitBlocks = 2, kPadBlocksResident = 8;
#endif

// y as units: its trailing axes from `axis` on, or `pack` neighbours of these. Each is made of x in the same way, from
// its own place on.
template <class U>
struct PadUnits
{
    using Index = std::make_signed_t<U>;
    PadGeometry<U> geometry;
    FastDiv<uint32_t> unit, width; // elements of y in a unit, and in a row of it
    int axis, pack;
    int span;       // elements of x from the first that a unit needs to the last
    int step;       // from one of a pack to the next, in x
    bool stretched; // brought by stretches
    U count;        // of all units
    int units;      // of a chunk
    int share;      // of these, that a warp brings
    unsigned chunks;
    int room;       // elements that a chunk's parts of x take at most, as they are brought
    int words;      // of y, that a thread makes

    // How far from there the row of a unit has its source, of its own first column.
    __device__ Index row(int r) const
    {
        Index at = 0;
        U rest = U(r);
#pragma unroll 1
        for (int a = geometry.rank - 2; a >= axis; --a)
        {
            PadAxis<U> const& one = geometry.axes[a];
            U const next = one.out(rest);
            at += geometry.fold(Index(rest - next * one.out.d) - one.begin, one) * one.stride;
            rest = next;
        }
        return at + Index(rest) * Index(step);
    }

    __device__ Index column(Index c) const
    {
        PadAxis<U> const& last = geometry.last();
        return geometry.fold(c - last.begin, last);
    }

    // Of which element of x the element e of y is made.
    __device__ Index source(Index e) const
    {
        U const row = geometry.last().out(U(e));
        return geometry.input_row(row) + column(e - Index(row * geometry.last().out.d));
    }
};

// Of a unit: a second place where words may have halves of two.
template <class T, class U>
__host__ __device__ int unit_place_bytes(PadUnits<U> const& g)
{
    return g.unit.d * sizeof(T) % 4 ? 8 : 4;
}

// What a chunk is of y: whole lines, up to the tensor's end. Its units begin after the words that the chunk before
// leaves of its last line.
template <class T, class U>
struct PadChunk
{
    using Index = std::make_signed_t<U>;
    static constexpr int VEC = kVectorBytes / sizeof(T), LINE = kPadLine / sizeof(T);
    Index begin;
    int left, count, whole; // elements: before the units, of all, in whole vectors

    __device__ PadChunk(PadUnits<U> const& g, unsigned which, int64_t elements)
    {
        int const length = g.units * int(g.unit.d);
        Index const units = Index(which) * length;
        begin = units / LINE * LINE;
        left = int(units - begin);
        count = int((which + 1 < g.chunks ? Index(units + length) / LINE * LINE : Index(elements)) - begin);
        whole = count / VEC * VEC;
    }
};

// Blocks stay and draw chunks, some neighbouring units of y each, two ahead, from *tickets, which is 0 before and after.
// Two warps bring the parts of x that a chunk's units need into shared memory, and two those of the next; while they
// come, one of these writes what the chunk before leaves of its last line. Eight warps move words from there to their
// places in the chunk; one draws, and sends. Where in its unit's part of x each word has its source is asked once, and
// kept in registers. Two of all there is, by turns: nobody is two turns ahead of another, so that the barriers' phases
// tell the turns apart.
// What a chunk needs of x is asked unit by unit; where units are many, by stretches: the units of a plane (the axis
// before theirs) that lie before x's, those inside, and those after, whose parts of x are each as far from the last.
template <class T, class U>
__global__ void __launch_bounds__(kUnitThreads, sizeof(U) == 4 ? kUnitBlocks : (kUnitBlocks + 1) / 2)
    pad_units_kernel(T const* __restrict__ x, T* __restrict__ y, PadUnits<U> const __grid_constant__ g,
        int64_t elements, unsigned* tickets, bool stream)
{
    await_predecessors();
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T), LINE = kPadLine / sizeof(T), PER_WORD = 4 / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ unsigned which_of[2]; // the chunks at work
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    int const made_room = g.words * 32 * kUnitWarps * PER_WORD + LINE;
    auto* const made = reinterpret_cast<Bits<T>*>(staged); // [2][made_room]
    auto* const windows = made + 2 * made_room;            // [2][g.room]
    // [2][g.units]: where in the window a unit's part of x is, in bytes, once for each half of a word; where words have
    // halves of two units, then a second one, for the first half of one and the second half of the other.
    int const place_words = unit_place_bytes<T>(g) / 4;
    auto* const places = reinterpret_cast<unsigned*>(windows + 2 * g.room);
    int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, bringer = warp - kUnitWarps;
    int const sharer = bringer < 2 ? 0 : 1; // of those who bring every other chunk
    bool const makes = bringer < 0, brings = bringer >= 0 && bringer < kUnitBringers;
#if SURGEON_DEVICE_HAS_ST_ASYNC
    __shared__ unsigned order[2];
    __shared__ uint64_t arrived[2], done[2], taken[2], drawn[2], ready[1];
    uint64_t const policy = cache_policy(stream);
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < 2; ++i)
        {
            barrier_init(arrived + i, 32 * kUnitSharers);
            barrier_init(done + i, 32 * (kUnitWarps + 1));
            barrier_init(taken + i, 32);
            barrier_init(drawn + i, 32);
        }
        barrier_init(ready, 32 * kUnitWarps);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#endif

    auto const set_place = [&](unsigned turn, int unit, unsigned at) {
        unsigned* const of_unit = places + (turn % 2 * g.units + unit) * place_words;
        *of_unit = PER_WORD == 1 ? at : at << 16 | at;
        if (place_words == 1)
            return;
        auto* const halves = reinterpret_cast<unsigned short*>(of_unit);
        halves[2] = (unsigned short)at;
        if (unit > 0)
            halves[-1] = (unsigned short)at;
    };
    // Where in x the parts of a lane's units of a chunk begin; there is a place for each, also beyond y's last.
    auto const inputs_of = [&](unsigned which, auto& inputs) {
        constexpr int A_LANE = int(std::extent<std::remove_reference_t<decltype(inputs)>>::value);
        U rows[A_LANE];
#pragma unroll
        for (int k = 0; k < A_LANE; ++k)
        {
            int const unit = min(sharer * g.share + 32 * k + lane, g.units - 1);
            rows[k] = min(U(which) * U(g.units) + U(unit), g.count - 1) * U(g.pack);
        }
        g.geometry.inputs(rows, g.axis, inputs);
    };
    // By all lanes of a warp that brings, with the bytes that each has asked for.
    auto const have_asked = [&](unsigned which, unsigned turn, [[maybe_unused]] unsigned bytes) {
        if (sharer == 0 && lane == 0)
            which_of[turn % 2] = which;
#if SURGEON_DEVICE_HAS_ST_ASYNC
        bulk_announce(bytes, arrived + turn % 2);
#endif
    };
    // By a warp that brings, for whose units the parts of x begin at `inputs`. They come as one run where they lie in
    // no more than their room, else neighbours in x do.
    auto const bring = [&](unsigned which, unsigned turn, auto& inputs) {
        constexpr int A_LANE = int(std::extent<std::remove_reference_t<decltype(inputs)>>::value);
        constexpr Index kVec = VEC;
        auto* const window = windows + turn % 2 * g.room;
        int const n = which < g.chunks ? g.units : 0, begin = sharer * g.share, count = min(g.share, n - begin);
        [[maybe_unused]] unsigned bytes = 0;
        if (count > 0)
        {
            Index const in_whole = g.geometry.in_elements & -kVec;
            int const room = g.share * (g.span + 2 * VEC);
            int place = sharer * (room + kUnitCongruent * LINE), congruent = kUnitCongruent;
            // Where what those from `head` to before `next` need of x begins, first and last.
            Index lowest, highest;
            auto const between = [&](int k, int head, int next) {
                return 32 * k + lane >= head && 32 * k + lane < next;
            };
            auto const extent = [&](int head, int next) {
                lowest = g.geometry.in_elements, highest = 0;
#pragma unroll
                for (int k = 0; k < A_LANE; ++k)
                    if (between(k, head, next))
                    {
                        lowest = min(lowest, inputs[k]);
                        highest = max(highest, inputs[k]);
                    }
                lowest = smallest_of_warp(lowest), highest = -smallest_of_warp(-highest);
            };
            extent(0, count);
            bool const together = highest - lowest <= room - g.span - 2 * VEC;
            unsigned heads[A_LANE];
            if (!together)
#pragma unroll
                for (int k = 0; k < A_LANE; ++k)
                {
                    Index const last_before = k > 0 && lane == 31 ? inputs[k > 0 ? k - 1 : 0] : inputs[k];
                    Index const before = __shfl_sync(kWholeWarp, last_before, lane + 31), reach = g.span + VEC;
                    heads[k] = __ballot_sync(kWholeWarp, inputs[k] - before > reach || before - inputs[k] > reach);
                }
            for (int head = 0, next = count; head < count; head = next)
            {
                if (!together)
                {
                    next = count;
#pragma unroll
                    for (int k = A_LANE - 1; k >= 0; --k)
                    {
                        int const first = 32 * k;
                        unsigned const left = head < first ? heads[k]
                            : head < first + 31            ? heads[k] & ~1u << head % 32
                                                           : 0;
                        next = left ? min(count, first + __ffs(left) - 1) : next;
                    }
                    extent(head, next);
                }
                Index const from = lowest & -kVec, to = highest + g.span;
                if (congruent-- > 0) // what lies in lines as it does in memory comes faster
                    place += int(from - place) & (LINE - 1);
#pragma unroll
                for (int k = 0; k < A_LANE; ++k)
                    if (between(k, head, next))
                        set_place(turn, begin + 32 * k + lane,
                            unsigned(place + int(inputs[k] - from)) * unsigned(sizeof(T)));
                Index const after = (to + kVec - 1) & -kVec;
                int const whole = int(max(min(after, in_whole) - from, Index(0)));
#if SURGEON_DEVICE_HAS_ST_ASYNC
                unsigned const bytes_of_run = unsigned(whole) * unsigned(sizeof(T));
                if (lane == 0)
                {
                    bulk_load(window + place, x + from, bytes_of_run, arrived + turn % 2, policy);
                    bytes += bytes_of_run;
                }
#else
                for (int e = lane * VEC; e < whole; e += 32 * VEC)
                    __pipeline_memcpy_async(window + place + e, x + from + e, kVectorBytes);
#endif
                if (from + whole + lane < min(to, g.geometry.in_elements)) // x's last, which fill no vector
                    window[place + whole + lane] = in[from + whole + lane];
                place += int(after - from);
            }
        }
        have_asked(which, turn, bytes);
    };
    // The same by stretches, of which each lane has one of the chunk's; f before anything is overwritten.
    auto const bring_stretches = [&](unsigned which, unsigned turn, auto const& f) {
        constexpr Index kVec = VEC;
        PadAxis<U> const& axis = g.geometry.axes[g.axis - 1];
        auto* const window = windows + turn % 2 * g.room;
        int const stride = int(axis.stride);
        U const first = U(which) * U(g.units), plane = axis.out(first);
        int const count = which < g.chunks ? int(min(U(g.units), g.count - first)) : 0;
        // Of a plane's units, how many lie before the chunk's first, are there, and lie before x's and up to their end.
        Index const skipped = Index(first - plane * axis.out.d), out = Index(axis.out.d);
        Index const x_begin = axis.begin, x_end = axis.begin + axis.size;
        int const of_plane = lane / kStretchesOfPlane, part = lane % kStretchesOfPlane;
        // From the chunk's first unit to its plane's; planes as large as chunks are no matter.
        Index const origin = of_plane == 0 ? -skipped
            : min(out - skipped, Index(g.units)) + (of_plane - 1) * min(out, Index(g.units));
        int const begin = int(max(origin + (part == 0 ? 0 : part == 1 ? x_begin : x_end), Index(0)));
        int const end = int(min(origin + (part == 0 ? x_begin : part == 1 ? x_end : out), Index(count)));
        int const direction = part == 1 ? 1 : g.geometry.sign;
        // What it needs of x, and how far from there the part of its first unit is.
        Index from = 0, to = 0;
        int first_at = 0;
        if (begin < end)
        {
            int const more = (end - begin - 1) * stride;
            from = g.geometry.input(plane + U(of_plane), g.axis - 1)
                + g.geometry.fold(Index(begin) - origin - x_begin, axis) * axis.stride;
            first_at = direction < 0 ? more : 0;
            from -= first_at;
            to = from + g.span + (direction != 0 ? more : 0);
            first_at += int(from & (kVec - 1));
            from &= -kVec;
        }
        Index const after = (to + kVec - 1) & -kVec, in_whole = g.geometry.in_elements & -kVec;
        int const whole = int(max(min(after, in_whole) - from, Index(0))), in_line = int(from & (LINE - 1));
        int const lines = (in_line + int(after - from) + LINE - 1) / LINE;
        int lines_before = lines;
        for (int step = 1; step < 32; step *= 2)
        {
            int const before = __shfl_up_sync(kWholeWarp, lines_before, step);
            lines_before += lane >= step ? before : 0;
        }
        int const place = (lines_before - lines) * LINE + in_line; // in lines as in memory
        int const unit_step = direction * stride * int(sizeof(T));
        int const unit_zero = (place + first_at) * int(sizeof(T)) - begin * unit_step; // as if the stretch began there
        f();
        unsigned bytes = 0;
#if SURGEON_DEVICE_HAS_ST_ASYNC
        if (sharer == 0 && whole > 0)
        {
            bytes = unsigned(whole) * unsigned(sizeof(T));
            bulk_load(window + place, x + from, bytes, arrived + turn % 2, policy);
        }
#else
        for (int stretch = 0; stretch < kMostStretches; ++stretch)
        {
            int const vectors = __shfl_sync(kWholeWarp, whole, stretch) / VEC;
            int const at = __shfl_sync(kWholeWarp, place, stretch);
            Index const of_x = __shfl_sync(kWholeWarp, from, stretch);
            for (int v = sharer * 32 + lane; v < vectors; v += 32 * kUnitSharers)
                __pipeline_memcpy_async(window + at + v * VEC, x + of_x + v * kVec, kVectorBytes);
        }
#endif
        if (sharer == 0)
            for (Index e = from + whole; e < min(to, g.geometry.in_elements); ++e) // x's last, which fill no vector
                window[place + int(e - from)] = in[e];
        int const share_end = count > 0 ? min((sharer + 1) * g.share, g.units) : 0;
#pragma unroll 2
        for (int u = sharer * g.share; u < share_end; u += 32)
        {
            int const unit = min(u + lane, count - 1); // there is a place for each, also beyond y's last
            U const since = U(skipped) + U(unit), planes = axis.out(since);
            Index const i = Index(since - planes * axis.out.d);
            int const stretch = int(planes) * kStretchesOfPlane + int(i >= x_begin) + int(i >= x_end);
            int const zero = __shfl_sync(kWholeWarp, unit_zero, stretch);
            int const at = zero + unit * __shfl_sync(kWholeWarp, unit_step, stretch);
            if (u + lane < share_end)
                set_place(turn, u + lane, unsigned(at));
        }
        have_asked(which, turn, bytes);
    };
    // Writes what the chunk before leaves, once f returns.
    auto const complete = [&](unsigned which, unsigned turn, auto const& f) {
        PadChunk<T, U> const c(g, which, elements);
        Bits<T> left[PER_WORD];
        if (lane * PER_WORD < c.left)
#pragma unroll
            for (int j = 0; j < PER_WORD; ++j)
                left[j] = __ldg(in + g.source(c.begin + lane * PER_WORD + j));
        f();
        if (lane * PER_WORD < c.left)
#pragma unroll
            for (int j = 0; j < PER_WORD; ++j)
                made[turn % 2 * made_room + lane * PER_WORD + j] = left[j];
    };
    // f before anything is overwritten.
    auto const bring_chunk = [&](unsigned which, unsigned turn, auto const& f) {
        auto const with_units = [&](auto a_lane) {
            Index inputs[decltype(a_lane)::value];
            inputs_of(which, inputs);
            f();
            bring(which, turn, inputs);
        };
        if (g.stretched)
            bring_stretches(which, turn, f);
        else if (g.share <= 32)
            with_units(std::integral_constant<int, 1>{});
        else
            with_units(std::integral_constant<int, kUnitsOfLane<U>>{});
    };
#if SURGEON_DEVICE_HAS_ST_ASYNC
    auto const until_free = [&](unsigned turn) {
        barrier_wait(turn < 2 ? ready : taken + turn % 2, turn < 2 ? 0 : (turn / 2 - 1) % 2);
    };
    if (brings)
    {
        unsigned which = blockIdx.x + bringer % 2 * gridDim.x;
        for (unsigned turn = bringer % 2;; turn += 2)
        {
            bring_chunk(which, turn, [&] {
                if (turn >= 2)
                    barrier_wait(done + turn % 2, (turn / 2 - 1) % 2);
            });
            if (which >= g.chunks)
                return;
            if (sharer > 0)
            {
                complete(which, turn, [&] { until_free(turn); });
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                barrier_arrive(done + turn % 2);
            }
            barrier_wait(drawn + turn % 2, turn / 2 % 2);
            which = order[turn % 2];
        }
    }
#else
    auto const bring_this = [&](unsigned which, unsigned turn) {
        if (brings && unsigned(bringer) % 2 == turn % 2)
            bring_chunk(which, turn, [] {});
        __pipeline_commit();
    };
    for (unsigned turn = 0; turn < 2; ++turn)
        bring_this(blockIdx.x + turn * gridDim.x, turn);
#endif

    // Of each word, 16 bits for the source of each half in its unit's part of x, in bytes; and 16 for where `places`
    // has that of its unit, in bytes, or that of its unit and the next.
    int const first = warp * g.words * 32 + lane;
    unsigned sources[kUnitWords], units[kUnitWords / 2];
    if (makes)
    {
        int const width = int(g.width.d), rows = int(g.unit.d) / width;
        auto* const columns = reinterpret_cast<int*>(made);
        for (int i = threadIdx.x; i < width + rows; i += 32 * kUnitWarps)
            columns[i] = int(i < width ? g.column(i) : g.row(i - width)) * int(sizeof(T));
        asm volatile("bar.sync 1, %0;" ::"n"(32 * kUnitWarps) : "memory");
#pragma unroll
        for (int k = 0; k < kUnitWords; ++k)
        {
            unsigned source = 0, unit_of = 0, place_of = 0;
            if (k < g.words)
#pragma unroll
                for (int j = 0; j < PER_WORD; ++j)
                {
                    unsigned const e = unsigned((first + k * 32) * PER_WORD + j), unit = g.unit(e);
                    unsigned const in_unit = e - unit * g.unit.d, row = g.width(in_unit);
                    if (unit >= unsigned(g.units)) // beyond the chunk: no matter what
                        continue;
                    if (j == 0)
                        unit_of = unit;
                    place_of = (unit_of * place_words + (unit - unit_of)) * 4;
                    source |= unsigned(columns[in_unit - row * g.width.d] + columns[width + row]) << 16 * j;
                }
            sources[k] = source;
            units[k / 2] = k % 2 ? units[k / 2] | place_of << 16 : place_of;
        }
#if SURGEON_DEVICE_HAS_ST_ASYNC
        barrier_arrive(ready); // `made` is free
#else
        asm volatile("bar.sync 1, %0;" ::"n"(32 * kUnitWarps) : "memory");
#endif
    }

    auto const make = [&](unsigned turn) {
        auto const* const window = reinterpret_cast<unsigned char const*>(windows + turn % 2 * g.room);
        auto const* const place = reinterpret_cast<unsigned char const*>(places + turn % 2 * g.units * place_words);
        PadChunk<T, U> const c(g, which_of[turn % 2], elements);
        auto* const to = reinterpret_cast<unsigned*>(made + turn % 2 * made_room + c.left) + first;
        auto const of_word = [&](int k, auto const& f) {
            unsigned source = sources[k], two = units[k / 2];
            asm volatile("" : "+r"(source), "+r"(two)); // not to be taken apart for the whole loop
            return f(*reinterpret_cast<unsigned const*>(place + (k % 2 ? two >> 16 : two & 0xffffu)), source);
        };
        auto const word = [&](unsigned at, unsigned source) {
            unsigned const from = at + source; // of both halves: windows are smaller than what 16 bits hold
            if constexpr (PER_WORD == 1)
                return *reinterpret_cast<unsigned const*>(window + from);
            else
                return unsigned(*reinterpret_cast<unsigned short const*>(window + (from & 0xffffu)))
                    | unsigned(*reinterpret_cast<unsigned short const*>(window + (from >> 16))) << 16;
        };
#pragma unroll
        for (int k = 0; k < kUnitWords; k += kUnitPiece)
        {
            if (k >= g.words)
                break;
            unsigned v[kUnitPiece];
#pragma unroll
            for (int j = 0; j < kUnitPiece; ++j)
                v[j] = of_word(k + j, word);
#pragma unroll
            for (int j = 0; j < kUnitPiece; ++j)
                to[(k + j) * 32] = v[j];
        }
    };
#if SURGEON_DEVICE_HAS_ST_ASYNC
    if (makes)
        for (unsigned turn = 0;; ++turn)
        {
            barrier_wait(arrived + turn % 2, turn / 2 % 2);
            if (which_of[turn % 2] >= g.chunks)
                return;
            until_free(turn);
            make(turn);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            barrier_arrive(done + turn % 2);
        }
    for (unsigned turn = 0;; ++turn)
    {
        barrier_wait(arrived + turn % 2, turn / 2 % 2);
        unsigned const which = which_of[turn % 2];
        if (which >= g.chunks)
            break;
        // Drawn as late as can be, so that what all blocks read at a time lies together.
        unsigned next = blockIdx.x + (turn + 2) * gridDim.x;
        if (tickets && lane == 0)
            next = 2 * gridDim.x + atomicAdd(tickets, 1u);
        if (lane == 0)
        {
            order[turn % 2] = next;
            if (tickets && next == 2 * gridDim.x + g.chunks - 1)
                *tickets = 0; // every chunk draws once
        }
        // All lanes: the next but one arrives after that, and one that still waited would miss this one.
        barrier_arrive(drawn + turn % 2);
        PadChunk<T, U> const c(g, which, elements);
        auto const* const out = made + turn % 2 * made_room;
        barrier_wait(done + turn % 2, turn / 2 % 2);
        if (c.whole + lane < c.count) // y's last elements
            reinterpret_cast<Bits<T>*>(y)[c.begin + c.whole + lane] = out[c.whole + lane];
        if (lane == 0)
        {
            bulk_store(y + c.begin, out, unsigned(c.whole) * unsigned(sizeof(T)), policy);
            bulk_stores_but_one_have_read();
        }
        if (turn > 0)
            barrier_arrive(taken + (turn + 1) % 2);
    }
    if (lane == 0)
        bulk_stores_have_read();
#else
    for (unsigned turn = 0;; ++turn)
    {
        __pipeline_wait_prior(1);
        __syncthreads();
        unsigned const which = blockIdx.x + turn * gridDim.x, next = which + 2 * gridDim.x;
        if (which >= g.chunks)
            return;
        PadChunk<T, U> const c(g, which, elements);
        if (makes)
            make(turn);
        else if (!brings)
            complete(which, turn, [] {});
        __syncthreads();
        bring_this(next, turn + 2);
        auto const* const out = made + turn % 2 * made_room;
        for (int e = threadIdx.x * VEC; e < c.whole; e += kUnitThreads * VEC)
            Vector<T>::of_shared(reinterpret_cast<T const*>(out) + e).store(y + c.begin + e, stream);
        if (c.whole + int(threadIdx.x) < c.count)
            reinterpret_cast<Bits<T>*>(y)[c.begin + c.whole + threadIdx.x] = out[c.whole + threadIdx.x];
    }
#endif
}

constexpr int kPadThreads = 256;

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
    await_predecessors();
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
        Index const source = last.begin + g.geometry.fold(Index(column) - last.begin, last);
        out[begin + column] = __ldg(in + input + source);
    }
}

} // namespace surgeon
