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

    // Where the input row begins that an output row is made of, its crop included.
    __device__ Index input_row(U row) const { return input(row, rank - 1) + last().crop; }

    // Where that part of the input begins that the output's part `index` is made of, when its first `count` axes are
    // taken in turn; their crops included.
    __device__ Index input(U index, int count) const;
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
    if (mode != PadMode::kEdge && i > -size && i < 2 * size - 1)
    {
        I const twice = mode == PadMode::kSymmetric ? 1 : 0;
        if (mode == PadMode::kWrap)
            return i < 0 ? i + size : i - size;
        return i < 0 ? -i - twice : 2 * (size - 1) + twice - i;
    }
    return fold_outside(i, size, mode);
}

template <class U>
__device__ inline std::make_signed_t<U> PadGeometry<U>::input(U index, int count) const
{
    Index at = 0;
#pragma unroll 1
    for (int a = count - 1; a >= 0; --a)
    {
        PadAxis<U> const& axis = axes[a];
        U const rest = a > 0 ? axis.out(index) : 0;
        at += (axis.crop + fold(Index(index - rest * axis.out.d) - axis.begin, axis.size, mode)) * axis.stride;
        index = rest;
    }
    return at;
}

constexpr int kUnitWarps = 8, kUnitBringers = 4, kUnitThreads = 32 * (kUnitWarps + kUnitBringers + 1);
constexpr int kUnitWords = 16, kUnitPiece = 4; // of a thread: at most, and at a time
constexpr int kPadLine = 128;
constexpr int kUnitCongruent = 4; // runs that a warp brings to where they lie in lines as in memory
constexpr int kUnitTurns = 4;     // whose facts are kept: two to come, the one at work, the one that goes out
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
    int span;        // elements of x from the first that a unit needs to the last
    Index low;       // that first one, in x's first unit
    FastDiv<uint32_t> step; // from one of a pack to the next, in x
    int parts;       // of x that a warp brings for packs which cross the ends of their axis, at most; 0: none does
    int spare;       // elements that these take at most, beyond what packs take
    U count;         // of all units
    int units;       // of a chunk
    unsigned chunks;
    int room;        // elements that a chunk's parts of x take at most, as they are brought
    int words;       // of y, that a thread makes

    // Where in x the part of a unit begins.
    __device__ Index input(U u) const { return geometry.input(u * U(pack), axis) + low; }

    // Whether a unit's pack crosses an end of its axis, so that its parts of x are not `step` apart.
    __device__ bool is_torn(U u) const
    {
        if (parts == 0 || u >= count)
            return false;
        PadAxis<U> const& packed = geometry.axes[axis - 1];
        U const first = u * U(pack), before = axis > 1 ? packed.out(first) * packed.out.d : 0;
        Index const i = Index(first - before) - packed.begin;
        return i < 0 || i + pack > packed.size;
    }

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
            at += fold(Index(rest - next * one.out.d) - one.begin, one.size, geometry.mode) * one.stride;
            rest = next;
        }
        return at + Index(rest) * Index(step.d);
    }

    __device__ Index column(Index c) const
    {
        PadAxis<U> const& last = geometry.last();
        return fold(c - last.begin, last.size, geometry.mode);
    }

    // Of which element of x the element e of y is made.
    __device__ Index source(Index e) const
    {
        U const row = geometry.last().out(U(e));
        return geometry.input_row(row) + column(e - Index(row * geometry.last().out.d));
    }
};

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
// Four warps bring the parts of x that a chunk's units need into shared memory; eight warps move words from there to
// their places in the chunk; one warp sends it. Where in its unit's part of x each word has its source is asked once,
// and kept in registers. Two of all there is, by turns: nobody is two turns ahead of another, so that the barriers'
// phases tell the turns apart.
// Short rows in tall planes come in packs, which make units. Where a pack crosses a plane's end it is torn: its rows are
// brought as units of their own, and its words ask for the row that they are of.
template <class T, class U>
__global__ void __launch_bounds__(kUnitThreads, sizeof(U) == 4 ? kUnitBlocks : (kUnitBlocks + 1) / 2)
    pad_units_kernel(T const* __restrict__ x, T* __restrict__ y, PadUnits<U> const __grid_constant__ g,
        int64_t elements, unsigned* tickets, bool stream)
{
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T), LINE = kPadLine / sizeof(T), PER_WORD = 4 / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    // Of the chunks in turn, which they are, and what the chunk before leaves.
    __shared__ unsigned which_of[kUnitTurns], left_words[kUnitTurns * kPadLine / 4];
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    int const made_room = g.words * 32 * kUnitWarps * PER_WORD + LINE;
    auto* const made = reinterpret_cast<Bits<T>*>(staged); // [2][made_room]
    auto* const windows = made + 2 * made_room;            // [2][g.room]
    // [2][g.units]: where in the window a unit's part of x is, and the next unit's, in bytes; or, of a torn unit, ~ the
    // first place of its pack's in `parts`.
    auto* const places = reinterpret_cast<int2*>(windows + 2 * g.room);
    auto* const parts = reinterpret_cast<int*>(places + 2 * g.units); // [2][kUnitBringers][g.parts]
    int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, bringer = warp - kUnitWarps;
    bool const makes = bringer < 0, brings = bringer >= 0 && bringer < kUnitBringers;
#if SURGEON_DEVICE_HAS_ST_ASYNC
    __shared__ unsigned order[2];
    __shared__ uint64_t arrived[2], done[2], taken[2];
    uint64_t const policy = cache_policy(stream);
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < 2; ++i)
        {
            barrier_init(arrived + i, 32 * kUnitBringers);
            barrier_init(done + i, 32 * kUnitWarps);
            barrier_init(taken + i, 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#endif

    // Where in x the part of a thread's unit of a chunk begins; there is a place for each, also beyond y's last.
    auto const input_of = [&](unsigned which) {
        return g.input(min(U(which) * U(g.units) + U(min(32 * bringer + lane, g.units - 1)), g.count - 1));
    };
    auto const left_word = [&](unsigned which) {
        PadChunk<T, U> const c(g, which, elements);
        unsigned word = 0;
        if (lane * PER_WORD < c.left)
#pragma unroll
            for (int j = 0; j < PER_WORD; ++j)
                word |= unsigned(__ldg(in + g.source(c.begin + lane * PER_WORD + j))) << 16 * j;
        return word;
    };
    // By a warp that brings, for whose units the parts of x begin at `input`. Neighbours in x come as one run; what the
    // packs of torn units are made of comes as units do, neighbouring packs' together.
    auto const bring = [&](unsigned which, unsigned turn, Index input) {
        auto* const window = windows + turn % 2 * g.room;
        auto* const place_of = places + turn % 2 * g.units;
        int const n = which < g.chunks ? g.units : 0;
        Index const in_whole = g.geometry.in_elements / VEC * VEC;
        [[maybe_unused]] unsigned bytes = 0;
        int const begin = 32 * bringer, unit = begin + lane;
        if (begin < n)
        {
            U const first = U(which) * U(n) + U(begin);
            unsigned torn = __ballot_sync(kWholeWarp, unit < n && g.is_torn(first + U(lane)));
            unsigned wanted = __ballot_sync(kWholeWarp, unit < n) & ~torn;
            int place = begin * (g.span + 2 * VEC) + bringer * (kUnitCongruent * LINE + g.spare);
            int congruent = kUnitCongruent, span = g.span, reach = g.span + VEC;
            int part = -1, next_part = (int(turn % 2) * kUnitBringers + bringer) * g.parts; // -1: lanes have units
            for (;;)
            {
                Index const before = __shfl_up_sync(kWholeWarp, input, 1);
                bool const far = input - before > reach || before - input > reach || !(wanted << 1 >> lane & 1);
                unsigned heads = __ballot_sync(kWholeWarp, far) & wanted;
                while (heads)
                {
                    int const head = __ffs(heads) - 1;
                    heads &= heads - 1;
                    bool const of_run = lane >= head && wanted >> lane & 1 && !(heads && lane >= __ffs(heads) - 1);
                    Index const origin = __shfl_sync(kWholeWarp, input, head);
                    int const away = of_run ? int(input - origin) : 0;
                    int const lowest = smallest_of_warp(away), highest = -smallest_of_warp(-away);
                    Index const from = (origin + lowest) / VEC * VEC, to = origin + highest + span;
                    if (congruent-- > 0) // what lies in lines as it does in memory comes faster
                        place += int((from - place) & (LINE - 1));
                    if (of_run)
                    {
                        int const at = (place + int(input - from)) * int(sizeof(T));
                        (part < 0 ? place_of[unit].x : parts[part + lane]) = at;
                        if (part < 0 && unit > 0)
                            place_of[unit - 1].y = at;
                    }
                    int const whole = int(max(min(ceil_div(to, Index(VEC)) * VEC, in_whole) - from, Index(0)));
#if SURGEON_DEVICE_HAS_ST_ASYNC
                    unsigned const bytes_of_run = unsigned(whole) * unsigned(sizeof(T));
                    if (lane == 0)
                        bulk_load(window + place, x + from, bytes_of_run, arrived + turn % 2, policy);
                    bytes += bytes_of_run;
#else
                    for (int e = lane * VEC; e < whole; e += 32 * VEC)
                        __pipeline_memcpy_async(window + place + e, x + from + e, kVectorBytes);
#endif
                    if (from + whole + lane < min(to, g.geometry.in_elements)) // x's last, which fill no vector
                        window[place + whole + lane] = in[from + whole + lane];
                    place += int(ceil_div(to - from, Index(VEC))) * VEC;
                }
                if (torn == 0)
                    break;
                int const head = __ffs(torn) - 1, run = __ffs(~(torn >> head)) - 1, most = 32 / g.pack;
                int const together = run < 0 ? most : min(run, most), step = int(g.step.d);
                torn &= ~(((1u << together) - 1) << head);
                part = next_part;
                next_part += together * g.pack;
                if (lane < together)
                    place_of[begin + head + lane].x = ~(part + lane * g.pack);
                wanted = ~0u >> (32 - together * g.pack);
                input = g.geometry.input((first + U(head)) * U(g.pack) + U(lane), g.axis) + g.low;
                congruent = 0;
                span = g.span - (g.pack - 1) * step;
                reach = max(span + VEC, step);
            }
        }
        if (bringer == kUnitBringers - 1)
        {
            left_words[turn % kUnitTurns * 32 + lane] = n > 0 ? left_word(which) : 0;
            if (lane == 0)
                which_of[turn % kUnitTurns] = which;
        }
#if SURGEON_DEVICE_HAS_ST_ASYNC
        if (lane == 0)
            bulk_announce(bytes, arrived + turn % 2);
        else
            barrier_arrive(arrived + turn % 2);
#else
        __pipeline_commit();
#endif
    };
    if (brings)
        for (unsigned turn = 0; turn < 2; ++turn)
        {
            unsigned const which = blockIdx.x + turn * gridDim.x;
            bring(which, turn, input_of(which));
        }

    int const width = int(g.width.d), rows = int(g.unit.d) / width;
    auto* const columns = reinterpret_cast<int*>(made);
    for (int i = threadIdx.x; i < width + rows; i += kUnitThreads)
        columns[i] = int(i < width ? g.column(i) : g.row(i - width)) * int(sizeof(T));
    __syncthreads();
    // Of each word, 16 bits for the source of each half in its unit's part of x, in bytes, the lowest bit of the second
    // set where that is of the next unit; and 16 for its unit, as bytes of `places`.
    int const first = warp * g.words * 32 + lane;
    unsigned sources[kUnitWords], units[kUnitWords / 2];
#pragma unroll
    for (int k = 0; k < kUnitWords; ++k)
    {
        unsigned source = 0, unit_of = 0;
        if (makes && k < g.words)
#pragma unroll
            for (int j = 0; j < PER_WORD; ++j)
            {
                unsigned const e = unsigned((first + k * 32) * PER_WORD + j), unit = g.unit(e);
                unsigned const in_unit = e - unit * g.unit.d, row = g.width(in_unit);
                if (unit >= unsigned(g.units)) // beyond the chunk: no matter what
                    continue;
                if (j == 0)
                    unit_of = unit;
                int const at = columns[in_unit - row * g.width.d] + columns[width + row];
                source |= unsigned(at + int(unit - unit_of)) << 16 * j;
            }
        sources[k] = source;
        unit_of *= unsigned(sizeof(int2));
        units[k / 2] = k % 2 ? units[k / 2] | unit_of << 16 : unit_of;
    }
    __syncthreads();

    // A word of a torn unit: packs are of whole words.
    auto const torn_word = [&](unsigned char const* window, int first_part, unsigned source) {
        unsigned word = 0;
#pragma unroll
        for (int j = 0; j < PER_WORD; ++j)
        {
            unsigned const at = PER_WORD == 1 ? source : source >> 16 * j & 0xffffu;
            unsigned const part = g.step(at / unsigned(sizeof(T)));
            unsigned const in_part = at - part * g.step.d * unsigned(sizeof(T));
            auto const* const from = window + parts[first_part + int(part)] + in_part;
            word |= unsigned(*reinterpret_cast<Bits<T> const*>(from)) << 16 * j;
        }
        return word;
    };
    auto const make = [&](unsigned turn, auto with_torn) {
        auto const* const window = reinterpret_cast<unsigned char const*>(windows + turn % 2 * g.room);
        auto const* const place = reinterpret_cast<unsigned char const*>(places + turn % 2 * g.units);
        PadChunk<T, U> const c(g, which_of[turn % kUnitTurns], elements);
        auto* const to = reinterpret_cast<unsigned*>(made + turn % 2 * made_room + c.left) + first;
        auto const of_word = [&](int k, auto const& f) {
            unsigned source = sources[k], two = units[k / 2];
            asm volatile("" : "+r"(source), "+r"(two)); // not to be taken apart for the whole loop
            return f(reinterpret_cast<int2 const*>(place + (k % 2 ? two >> 16 : two & 0xffffu)), source);
        };
        auto const word = [&](int2 const* at, unsigned source) {
            if constexpr (PER_WORD == 1)
                return *reinterpret_cast<unsigned const*>(window + (at->x + int(source)));
            else
            {
                int2 const both = *at;
                int const a = both.x + int(source & 0xffffu);
                int const b = (source & 0x10000u ? both.y - 1 : both.x) + int(source >> 16);
                return unsigned(*reinterpret_cast<unsigned short const*>(window + a))
                    | unsigned(*reinterpret_cast<unsigned short const*>(window + b)) << 16;
            }
        };
#pragma unroll
        for (int k = 0; k < kUnitWords; k += kUnitPiece)
        {
            if (k >= g.words)
                break;
            int torn = 0; // below 0: one of these is
            if constexpr (decltype(with_torn)::value)
#pragma unroll
                for (int j = 0; j < kUnitPiece; ++j)
                    torn |= of_word(k + j, [](int2 const* at, unsigned) { return at->x; });
            unsigned v[kUnitPiece];
            if (torn < 0)
#pragma unroll
                for (int j = 0; j < kUnitPiece; ++j)
                    v[j] = of_word(k + j, [&](int2 const* at, unsigned source) {
                        return at->x < 0 ? torn_word(window, ~at->x, source) : word(at, source);
                    });
            else
#pragma unroll
                for (int j = 0; j < kUnitPiece; ++j)
                    v[j] = of_word(k + j, word);
#pragma unroll
            for (int j = 0; j < kUnitPiece; ++j)
                to[(k + j) * 32] = v[j];
        }
    };
    auto const make_any = [&](unsigned turn) {
        if (g.parts > 0)
            make(turn, std::true_type{});
        else
            make(turn, std::false_type{});
    };
    auto const complete = [&](unsigned turn, PadChunk<T, U> const& c) {
        auto* const words = reinterpret_cast<unsigned*>(made + turn % 2 * made_room);
        if (lane * PER_WORD < c.left)
            words[lane] = left_words[turn % kUnitTurns * 32 + lane];
    };

#if SURGEON_DEVICE_HAS_ST_ASYNC
    if (makes)
        for (unsigned turn = 0;; ++turn)
        {
            barrier_wait(arrived + turn % 2, turn / 2 % 2);
            bool const last = which_of[turn % kUnitTurns] >= g.chunks;
            if (!last)
            {
                if (turn >= 2)
                    barrier_wait(taken + turn % 2, (turn / 2 - 1) % 2);
                make_any(turn);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            }
            barrier_arrive(done + turn % 2);
            if (last)
                return;
        }
    if (brings)
        for (unsigned turn = 0;; ++turn)
        {
            barrier_wait(arrived + turn % 2, turn / 2 % 2);
            if (which_of[turn % kUnitTurns] >= g.chunks)
                return;
            // Drawn as late as can be, so that what all blocks read at a time lies together.
            if (bringer == 0 && lane == 0 && tickets)
            {
                unsigned const drawn = atomicAdd(tickets, 1u);
                order[turn % 2] = 2 * gridDim.x + drawn;
                if (drawn == g.chunks - 1)
                    *tickets = 0; // every chunk draws once
            }
            else if (bringer == 0 && lane == 0)
                order[turn % 2] = blockIdx.x + (turn + 2) * gridDim.x;
            asm volatile("bar.sync 1, %0;" ::"n"(32 * kUnitBringers) : "memory");
            unsigned const next = order[turn % 2];
            Index const input = input_of(next);
            barrier_wait(done + turn % 2, turn / 2 % 2);
            bring(next, turn + 2, input);
        }
    for (unsigned turn = 0;; ++turn)
    {
        barrier_wait(done + turn % 2, turn / 2 % 2);
        unsigned const which = which_of[turn % kUnitTurns];
        if (which >= g.chunks)
            break;
        PadChunk<T, U> const c(g, which, elements);
        auto const* const out = made + turn % 2 * made_room;
        complete(turn, c);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
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
            make_any(turn);
        else if (!brings)
            complete(turn, c);
        __syncthreads();
        if (brings)
            bring(next, turn + 2, input_of(next));
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
