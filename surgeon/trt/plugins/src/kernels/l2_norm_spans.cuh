// L2Norm along an axis by whole images, wherever in a vector they begin, over clusters.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where an image, all channels of one outer index, fits the shared memory of a few
// blocks: into shares, each a span of memory that ends with a line of it, or with the image. A share is seen as 32-bit
// words from the line on that it begins in; after `turn` words, which are whole rows, columns come again.
struct ImageSpans
{
    int64_t elements;
    unsigned images;
    int channels, inner;
    int share;       // elements, whole lines; the last share has what is left
    int rows, turn;  // of a turn: its rows, its words
    int width;       // words of a turn from one of a thread to its next
    int pieces;      // of a share, which come and go by themselves
    int stages;      // shares that a block has
    int lanes;       // that add up a column's sums
    int owned;       // columns that a block finishes for the cluster
    FastDiv<uint32_t> over_inner, over_owned;
};

constexpr int kSpanWords = 8;         // of a thread and a piece, at most
constexpr int kMostSpanPieces = 32;   // of all stages
constexpr int kMostSpanStages = 4, kSpansMover = 32, kMostSpanThreads = 480 + kSpansMover, kMostSpanWords = 2;

// Of a turn's words a thread has so many.
__host__ __device__ constexpr int span_rounds(int words) { return kSpanWords / words; }

// Where the parts of a block's shared memory begin, in floats after its stages.
struct SpansMemory
{
    int room; // elements of a stage
    int sums = 0, divisors, gathered, weights, end;
    int before; // rows that the weights begin before the share's first

    __host__ __device__ SpansMemory(ImageSpans const& g, int size, int blocks)
        : room(g.share + kLineBytes / size), before(ceil_div(kLineBytes / size, g.inner) + 1)
    {
        divisors = sums + g.turn * (4 / size);                       // sums [rows of a turn][inner]
        gathered = divisors + g.inner;                               // divisors [inner]
        weights = gathered + (blocks > 1 ? blocks * g.owned : 0);    // gathered [blocks][owned]
        end = weights + min_of(g.share / g.inner + 1, g.channels) + 2 * before + 1;
    }

    __host__ __device__ static int min_of(int a, int b) { return a < b ? a : b; }
};

// The blocks of a cluster hold an image, a share each, which comes and goes by bulk copies as it lies in memory, at the
// same place inside a line; what is left of the vectors at an image's ends is written by elements. A thread's words are
// whole turns apart, so it has the same few columns in all of them, whose sums and divisors stay in its registers. A
// block finishes its part of the columns for the cluster: it gets all blocks' sums and sends them the divisors. The last
// warp moves the pieces: one that is done leaves, and the same stage's next image comes to its place. Images are drawn
// from *tickets, which is 0 before and after; without tickets the clusters take them in turn. With CROSS, of an odd
// number of halves to a row, a word may hold the end of one row and the beginning of the next.
template <class T, int WORDS, bool CROSS>
__global__ void __launch_bounds__(kMostSpanThreads, SURGEON_DEVICE_HAS_ST_ASYNC ? 2 : 1)
    l2norm_spans_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ImageSpans g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), LINE = kLineBytes / sizeof(T), PER = 4 / sizeof(T);
    constexpr int ROUNDS = span_rounds(WORDS), AT_ONCE = 4 / WORDS; // rounds
    using Word = Pack<T, PER>;
    extern __shared__ __align__(128) unsigned char spans_memory[];
    __shared__ uint64_t gathered, divided, full[kMostSpanPieces], done[kMostSpanPieces];
    __shared__ unsigned image_of[kMostSpanStages];
    __shared__ float following[kMostSpanStages]; // images, as bits
    int const blocks = int(cluster_size()), rank = int(cluster_rank()), thread = threadIdx.x;
    int const workers = int(blockDim.x) - kSpansMover, piece = ROUNDS * g.turn * PER; // elements
    unsigned const cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;

    SpansMemory const memory(g, sizeof(T), blocks);
    T* const stages = reinterpret_cast<T*>(spans_memory);
    float* const floats = reinterpret_cast<float*>(stages + g.stages * memory.room);
    float* const sums = floats + memory.sums;
    float* const divisors = floats + memory.divisors;
    float* const others = floats + memory.gathered;
    float* const weights = floats + memory.weights;
    // Elements before the share's words, and words across its last row's end, have rows that are not the share's.
    int const first_row = max(rank * g.share - LINE, 0) / g.inner - memory.before;
    for (int c = thread; c < memory.end - memory.weights; c += blockDim.x)
    {
        int const channel = first_row + c;
        weights[c] = weight.data && channel >= 0 && channel < g.channels ? weight.at(channel) : 1.f;
    }
    if (thread == 0)
    {
        barrier_init(&gathered);
        barrier_init(&divided);
        for (int i = 0; i < g.stages * g.pieces; ++i)
        {
            barrier_init(full + i, kSpansMover);
            barrier_init(done + i, workers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_arrive(); // the others' barriers are ready
    cluster_wait();

    struct Share
    {
        int64_t base;   // the element that the stage begins with
        int lead, stop; // in the stage, of the share
        int offset;     // of the base in the image
    };
    auto const share_of = [&](unsigned image) {
        int const elements = g.channels * g.inner;
        int64_t const start = image * int64_t(elements);
        int64_t const begin = rank == 0 ? start : (start + rank * g.share) / LINE * LINE,
                      end = rank == blocks - 1 ? start + elements : (start + (rank + 1) * g.share) / LINE * LINE;
        int64_t const base = begin / LINE * LINE;
        return Share{base, int(begin - base), int(end - base), int(base - start)};
    };

    Ring ring;
    if (thread >= workers)
    {
        int const lane = thread - workers;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const fetch = [&](unsigned image, int of_stage, int i) {
            uint64_t* const barrier = full + of_stage * g.pieces + i;
            if (image >= g.images)
            {
                if (lane == 0 && i == 0)
                    image_of[of_stage] = image;
                return barrier_arrive(barrier);
            }
            Share const s = share_of(image);
            T* const stage = stages + of_stage * memory.room;
            int64_t const left = g.elements - s.base;
            int const all = ceil_div(s.stop, VEC) * VEC;
            int const from = i == 0 ? s.lead / VEC * VEC : min(ceil_div(i * piece, LINE) * LINE, all);
            int const to = i == g.pieces - 1 ? all : min(ceil_div((i + 1) * piece, LINE) * LINE, all);
            int const whole = to > left ? to - VEC : to; // the tensor's last vector may be cut
            if (whole >= from)
                for (int e = whole + lane; e < to && e < left; e += 32)
                    stage[e] = x[s.base + e];
            if (lane > 0)
                return barrier_arrive(barrier);
            if (i == 0)
                image_of[of_stage] = image;
            unsigned const bytes = unsigned(max(whole - from, 0) * int(sizeof(T)));
            bulk_announce(bytes, barrier);
            bulk_load(stage + from, x + s.base + from, bytes, barrier, policy);
        };
        unsigned held = cluster + lane * clusters; // the image of stage `lane`
#pragma unroll 1
        for (int j = 0; j < g.stages; ++j)
#pragma unroll 1
            for (int i = 0; i < g.pieces; ++i)
                fetch(cluster + j * clusters, j, i);
#pragma unroll 1
        for (;; ring.advance(g.stages))
        {
            unsigned const image = __shfl_sync(kWholeWarp, held, ring.stage);
            if (image >= g.images)
                return;
            Share const s = share_of(image);
            T const* const stage = stages + ring.stage * memory.room;
            T* const to = y + s.base;
            int const begin = ceil_div(s.lead, VEC) * VEC, end = max(s.stop / VEC * VEC, begin);
            unsigned next = image + g.stages * clusters;
#pragma unroll 1
            for (int i = 0; i < g.pieces; ++i)
            {
                barrier_wait(done + ring.stage * g.pieces + i, ring.phase);
                if (i == 0 && tickets)
                    next = __float_as_uint(following[ring.stage]);
                bool const last = i == g.pieces - 1;
                if (i == 0 && s.lead + lane < min(begin, s.stop))
                    to[s.lead + lane] = stage[s.lead + lane];
                if (last && end + lane < s.stop)
                    to[end + lane] = stage[end + lane];
                if (lane == 0)
                {
                    int const first = i == 0 ? begin : min(i * piece / LINE * LINE, end);
                    int const past = last ? end : min((i + 1) * piece / LINE * LINE, end);
                    bulk_store(to + first, stage + first, unsigned((past - first) * int(sizeof(T))), policy);
                    bulk_stores_but_one_have_read();
                }
                __syncwarp();
                if (i > 1) // the piece after a fetched one has left: lines at their border are in both
                    fetch(next, ring.stage, i - 2);
            }
            if (lane == 0)
                bulk_stores_have_read();
            __syncwarp();
            for (int i = max(g.pieces - 2, 0); i < g.pieces; ++i)
                fetch(next, ring.stage, i);
            held = lane == ring.stage ? next : held;
        }
    }

    bool const live = thread < g.width, has_last = thread + (WORDS - 1) * g.width < g.turn;
    int const owns = min(g.owned, g.inner - rank * g.owned);
    bool const draws = tickets && rank == 0 && thread == 0;
    auto const has = [&](int w) { return w + 1 < WORDS || has_last; };
    // f(whether all words of the piece are the share's) for the thread's words of piece i.
    auto const with_piece = [&](int i, int stop, auto const& f) {
        if (!live)
            return;
        if ((i + 1) * piece <= stop)
            f(std::true_type{});
        else
            f(std::false_type{});
    };
    unsigned turn = 0; // of the cluster's barriers
    for (;; ring.advance(g.stages), turn ^= 1)
    {
        uint64_t* const of_stage = full + ring.stage * g.pieces;
        barrier_wait(of_stage, ring.phase);
        unsigned const image = image_of[ring.stage];
        if (image >= g.images)
            return;
        unsigned drawn = 0;
        if (draws)
            drawn = atomicAdd(tickets, 1u);
        Share const s = share_of(image);
        unsigned* const words = reinterpret_cast<unsigned*>(stages + ring.stage * memory.room) + thread;
        if (live && thread * PER < s.lead) // of the image before
        {
            if (s.lead - thread * PER >= PER)
                *words = 0u;
            else
                *reinterpret_cast<Bits<T>*>(words) = 0;
        }
        float sum[WORDS][PER] = {};
        for (int i = 0; i < g.pieces; ++i)
        {
            if (i > 0)
                barrier_wait(of_stage + i, ring.phase);
            with_piece(i, s.stop, [&](auto whole) {
                unsigned const* const p = words + i * ROUNDS * g.turn;
                int const left = s.stop - i * piece - thread * PER; // elements
#pragma unroll
                for (int r = 0; r < ROUNDS; ++r)
#pragma unroll
                    for (int w = 0; w < WORDS; ++w)
                    {
                        int const at = r * g.turn + w * g.width;
                        if (!has(w) || (!decltype(whole)::value && at * PER >= left))
                            continue;
                        Word v;
                        v.words[0] = p[at];
#pragma unroll
                        for (int k = 0; k < PER; ++k)
                            if (decltype(whole)::value || k == 0 || at * PER + k < left)
                                sum[w][k] = fmaf(v[k], v[k], sum[w][k]);
                    }
            });
        }
        if (live)
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                if (has(w))
#pragma unroll
                    for (int k = 0; k < PER; ++k)
                        sums[(thread + w * g.width) * PER + k] = sum[w][k];
        if (draws && drawn == g.images - 1)
            *tickets = 0; // every image draws once
        // Counted from a row before the image.
        unsigned const bias = (memory.before - 1) * g.inner, base_column = s.offset + bias;
        int const shift = int(base_column - g.over_inner(base_column) * g.inner);
        workers_meet(workers);
        if (thread == 0 && blocks > 1)
        {
            if (owns > 0)
                bulk_announce(unsigned(owns * blocks * sizeof(float)), &gathered);
            bulk_announce(unsigned((g.inner + (tickets ? 1 : 0)) * sizeof(float)), &divided);
        }
        for (int base = 0; base < g.inner; base += workers / g.lanes)
        {
            int const place = base + thread / g.lanes, lane = thread % g.lanes;
            float total = 0.f;
            if (place < g.inner)
#pragma unroll 4
                for (int i = lane; i < g.rows; i += g.lanes)
                    total += sums[i * g.inner + place];
            for (int m = g.lanes / 2; m > 0; m /= 2)
                total += __shfl_xor_sync(kWholeWarp, total, m);
            if (place >= g.inner || lane > 0)
                continue;
            int const shifted = place + shift, column = shifted < g.inner ? shifted : shifted - g.inner;
            if (blocks == 1)
                divisors[column] = divisor_of(total, norm);
            else
            {
                int const owner = int(g.over_owned(unsigned(column)));
                send_remote(others + rank * g.owned + column - owner * g.owned, total, &gathered, owner);
            }
        }
        float const to_follow = __uint_as_float(g.stages * clusters + drawn);
        if (blocks == 1 && draws)
            following[ring.stage] = to_follow;
        if (blocks > 1)
        {
            if (thread < owns)
                barrier_wait(&gathered, turn); // so all blocks are at this image
            if (draws)
                for (int i = 0; i < blocks; ++i)
                    send_remote(following + ring.stage, to_follow, &divided, i);
            for (int c = thread; c < owns; c += workers)
            {
                float total = 0.f;
#pragma unroll 8
                for (int i = 0; i < blocks; ++i)
                    total += others[i * g.owned + c];
                float const divisor = divisor_of(total, norm);
                for (int i = 0; i < blocks; ++i)
                    send_remote(divisors + rank * g.owned + c, divisor, &divided, i);
            }
        }
        workers_meet(workers);
        if (blocks > 1)
            barrier_wait(&divided, turn);
        bool multiply = true;
        float factor[WORDS][PER];
        float const* of_row[WORDS];
        int after[WORDS]; // the second half's row after the first one's
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
        {
            unsigned const place = base_column + (thread + w * g.width) * PER, row = g.over_inner(place);
            int const column = int(place - row * g.inner);
            of_row[w] = weights + int(row) - (memory.before - 1) - first_row;
            after[w] = CROSS && column == g.inner - 1 ? 1 : 0;
#pragma unroll
            for (int k = 0; k < PER; ++k)
            {
                factor[w][k] = live && has(w) ? divisors[k > 0 && after[w] ? 0 : column + k] : 1.f;
                multiply = multiply && has_reciprocal(factor[w][k]);
            }
        }
        multiply = __all_sync(kWholeWarp, multiply);
        if (multiply)
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
#pragma unroll
                for (int k = 0; k < PER; ++k)
                    factor[w][k] = reciprocal_of(factor[w][k]);
        auto const write = [&](auto weighted, auto const& scaled) {
            constexpr bool WEIGHTED = decltype(weighted)::value;
            for (int i = 0; i < g.pieces; ++i)
            {
                with_piece(i, s.stop, [&](auto whole) {
                    unsigned* const p = words + i * ROUNDS * g.turn;
                    int const left = s.stop - i * piece - thread * PER, row = i * ROUNDS * g.rows;
                    auto const inside = [&](int r, int w) {
                        return has(w) && (decltype(whole)::value || (r * g.turn + w * g.width) * PER < left);
                    };
#pragma unroll
                    for (int first = 0; first < ROUNDS; first += AT_ONCE) // ROUNDS is a multiple
                    {
                        Word v[AT_ONCE][WORDS];
                        [[maybe_unused]] float weigh[AT_ONCE][WORDS][PER];
#pragma unroll
                        for (int r = 0; r < AT_ONCE; ++r)
#pragma unroll
                            for (int w = 0; w < WORDS; ++w)
                                if (inside(first + r, w))
                                {
                                    v[r][w].words[0] = p[(first + r) * g.turn + w * g.width];
                                    if constexpr (WEIGHTED)
                                    {
                                        float const* const at = of_row[w] + row + (first + r) * g.rows;
                                        weigh[r][w][0] = at[0];
                                        if (PER > 1)
                                            weigh[r][w][PER - 1] = CROSS ? at[after[w]] : weigh[r][w][0];
                                    }
                                }
#pragma unroll
                        for (int r = 0; r < AT_ONCE; ++r)
#pragma unroll
                            for (int w = 0; w < WORDS; ++w)
                                if (inside(first + r, w))
                                {
                                    float out[PER];
#pragma unroll
                                    for (int k = 0; k < PER; ++k)
                                    {
                                        out[k] = scaled(v[r][w][k], factor[w][k]);
                                        if constexpr (WEIGHTED)
                                            out[k] *= weigh[r][w][k];
                                    }
                                    p[(first + r) * g.turn + w * g.width] = Word::of(out).words[0];
                                }
                    }
                });
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                barrier_arrive(done + ring.stage * g.pieces + i);
            }
        };
        if (!multiply)
            write(std::true_type{}, [](float v, float f) { return Scale(f)(v); });
        else if (weight.data)
            write(std::true_type{}, [](float v, float f) { return v * f; });
        else
            write(std::false_type{}, [](float v, float f) { return v * f; });
    }
#endif
}

} // namespace surgeon
