// L2Norm along an axis by whole blocks of memory, over clusters that exchange their sums.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

constexpr int kExchangeBlockBytes = 256; // of memory: pieces that begin and end on less cost up to a tenth
constexpr int kExchangeThreads = 512, kExchangeAdders = 64, kExchangePublishers = 32, kExchangePollers = 32;
constexpr int kExchangeStride = kExchangeThreads * kVectorBytes / kExchangeBlockBytes; // channels that a block has at once
constexpr int kMostExchangePacks = 8;
constexpr int kExchangeRing = 256; // tiles that have words in memory at once

// How [outer, channels, inner] is cut where channels begin anywhere: memory is seen as blocks of 256 bytes, and a tile is
// the k-th block of each channel of an outer index. So a tile has other columns of every channel, and twice a block's in
// all; but nothing is read or written by two tiles that is not the end of one channel and the begin of the next.
struct ChannelBlocks
{
    int64_t inner;
    unsigned items, tiles; // tiles in all, tiles of one outer index
    FastDiv<uint32_t> over_tiles;
    int channels, packs; // packs: of a thread, a vector of a channel each
    unsigned skew;       // elements that lie between x's begin and a block of memory's
};

// How a block of threads works on tiles whose threads have up to R packs: in shared memory there are `stages`, and the
// registers have one tile more; of as many tiles as there are `turns` the sums are on their way.
template <class T, int R>
struct Exchange
{
    static constexpr int kStages = 24 / R, kLook = kStages - 1, kTurns = kLook + 1, kWarps = kExchangeThreads / 32;
    static constexpr int kThreads = kExchangeThreads + kExchangeAdders + kExchangePublishers + kExchangePollers;
    static constexpr int kVector = kVectorBytes / sizeof(T), kBlock = kExchangeBlockBytes / sizeof(T);
    static constexpr int kVectors = kBlock / kVector, kColumns = 2 * kBlock;
    static constexpr int kPitch = kColumns / kVector + 1; // odd: neighbouring lanes read columns of neighbouring vectors
    // The bytes of a block's shared memory, in the order in which they lie there.
    static constexpr int kStageBytes = kStages * R * kExchangeThreads * kVectorBytes;
    static constexpr int kSumsBytes = kWarps * kColumns * int(sizeof(float));
    static constexpr int kFactorsBytes = kTurns * kVector * kPitch * int(sizeof(float2)); // [turns][in a vector][vectors]
    static constexpr int kPartialsBytes = kTurns * kColumns * int(sizeof(float));         // [turns][blocks][owned]
    static constexpr int kBytes = kStageBytes + kSumsBytes + kFactorsBytes + kPartialsBytes;
};

#if SURGEON_DEVICE_HAS_ST_ASYNC
__device__ inline uint64_t load_word(uint64_t const* p)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ inline void store_word(uint64_t* p, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
#endif

// The blocks of a cluster share the channels: each thread has one vector of a block of memory from each of its channels,
// which are so far apart that they all begin equally far inside one. A thread's columns are always the same, or those
// that lie one block of memory before, where the channels begin late. While a tile's sums of squares are brought
// together, the threads scale and write the tile that came some tiles before, which they have in registers; others wait
// in shared memory. The sums go three ways. Adders add those of the block's warps and send each to the block of the
// cluster that owns its column; there they become the tile's. Half of a tile's columns have their other channels in
// the tile before, half in the tile after, which other clusters have: so publishers write the sums to memory, and
// pollers wait for the neighbours', and send the factors to all blocks of the cluster. A word in memory has the sum
// and in its upper half a state: twice the number of the tile that may write it, and one more once that has; who reads it
// hands it to the tile that is kExchangeRing later; all are 0 before and after. Clusters take tiles in turn, so that
// neighbours are worked on at the same time, and publish a tile before they wait for another's. All of them must be
// resident.
template <class T, int R>
__global__ void __launch_bounds__(Exchange<T, R>::kThreads, 1)
    l2norm_exchange_kernel(const __grid_constant__ CUtensorMap x, Scalars weight, T* __restrict__ y, ChannelBlocks g,
        Norm norm, uint64_t* words)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    using E = Exchange<T, R>;
    constexpr int VEC = E::kVector, BLOCK = E::kBlock, VECTORS = E::kVectors, COLUMNS = E::kColumns, PITCH = E::kPitch;
    constexpr int THREADS = kExchangeThreads, ADDERS = kExchangeAdders, Y = kExchangeStride, WARP = 32;
    constexpr int STAGES = E::kStages, LOOK = E::kLook, TURNS = E::kTurns, WARPS = E::kWarps;
    static_assert(WARPS % VEC == 0, "a warp's channels must lie alike in vectors");
    extern __shared__ __align__(128) unsigned char exchange_memory[];
    // A tile's phases: the warps' sums are there, and added up; the owned columns' partials are here; their sums are;
    // the factors are here.
    __shared__ uint64_t summed, added, exchanged[TURNS], totalled[TURNS], factored[TURNS];
    __shared__ uint64_t loaded[STAGES * WARPS]; // a warp's part of a stage's tile is there
    __shared__ float weights[Y * R];
    unsigned const blocks = cluster_size(), rank = cluster_rank(), cluster = blockIdx.x / blocks,
                   clusters = gridDim.x / blocks;
    T* const stages = reinterpret_cast<T*>(exchange_memory); // [STAGES][Y][R] blocks of memory
    float* const sums = reinterpret_cast<float*>(exchange_memory + E::kStageBytes); // [WARPS][COLUMNS]
    float2* const factors = reinterpret_cast<float2*>(exchange_memory + E::kStageBytes + E::kSumsBytes);
    float* const partials = reinterpret_cast<float*>(exchange_memory + E::kStageBytes + E::kSumsBytes + E::kFactorsBytes);
    int const thread = threadIdx.x, lane = thread % WARP, first_channel = int(rank) * Y, stride = Y * int(blocks),
              owned = COLUMNS / int(blocks), first_owned = int(rank) * owned;

    struct Tile
    {
        unsigned outer;
        int k; // its block of memory, counted from each channel's first
    };
    auto const item_of = [&](unsigned count) { return cluster + count * clusters; };
    unsigned const tiles = (g.items - cluster + clusters - 1) / clusters; // of the cluster, one or more
    auto const tile_of = [&](unsigned item) {
        unsigned const outer = g.over_tiles(item);
        return Tile{outer, int(item - outer * g.tiles)};
    };
    auto const start_of = [&](Tile const& t, int channel) { return (int64_t(t.outer) * g.channels + channel) * g.inner; };
    // Whether the column has no channels in another tile.
    auto const alone = [&](Tile const& t, int column) { return t.k == (column < BLOCK ? 0 : int(g.tiles) - 1); };
    // A word's upper half when the tile may write it, and when it has.
    auto const free_for = [&](unsigned item) { return item < kExchangeRing || item >= g.items ? 0 : 2 * item; };
    auto const written_by = [&](unsigned item) { return 2 * item + 1; };
    if (thread == 0)
    {
        barrier_init(&summed, WARPS);
        barrier_init(&added, ADDERS / WARP);
        for (int i = 0; i < TURNS; ++i)
        {
            barrier_init(exchanged + i);
            barrier_init(totalled + i);
            barrier_init(factored + i);
        }
        for (int i = 0; i < STAGES * WARPS; ++i)
            barrier_init(loaded + i, WARP / VECTORS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = thread; weight.data && i < Y * g.packs; i += blockDim.x)
        weights[i] = weight.at(first_channel + i % Y + i / Y * stride);
    for (int i = thread; i < TURNS * PITCH * VEC; i += blockDim.x)
        factors[i] = make_float2(1.f, 0.f); // some are read that belong to no column
    __syncwarp();
    cluster_arrive(); // the others' barriers are ready
    cluster_wait();

    constexpr int OWNED = 2; // columns of a lane, or one: clusters have two blocks or more, of halves four
    if (thread >= THREADS + ADDERS + kExchangePublishers) // pollers
    {
        for (unsigned count = 0; count < tiles; ++count)
        {
            unsigned const turn = count % TURNS, item = item_of(count);
            Tile const tile = tile_of(item);
            int word[OWNED]; // the neighbours', -1 for none
            uint64_t got[OWNED] = {};
            auto const other = [&](int i) { return first_owned + lane + i * WARP < BLOCK ? item - 1 : item + 1; };
#pragma unroll
            for (int i = 0; i < OWNED; ++i)
            {
                int const at = lane + i * WARP, s = first_owned + at;
                word[i] = int(other(i) % kExchangeRing) * COLUMNS + (s < BLOCK ? s + BLOCK : s - BLOCK);
                if (at >= owned || alone(tile, s))
                    word[i] = -1;
                else
                    got[i] = load_word(words + word[i]);
            }
            barrier_wait(totalled + turn, count / TURNS % 2);
            __syncwarp(); // a lane that nobody waits for could miss a phase
            if (lane == 0) // not before: the turn's tile before must have all of its factors
                bulk_announce(unsigned(COLUMNS * sizeof(float2)), factored + turn);
            for (bool all = false; !all;) // together: a load that finds nothing has cost its whole latency
            {
                all = true;
#pragma unroll
                for (int i = 0; i < OWNED; ++i)
                    if (word[i] >= 0 && unsigned(got[i] >> 32) != written_by(other(i)))
                    {
                        got[i] = load_word(words + word[i]);
                        all = false;
                    }
            }
#pragma unroll
            for (int i = 0; i < OWNED; ++i)
            {
                int const at = lane + i * WARP, s = first_owned + at, column = (tile.k - 1) * BLOCK + 1 + s;
                if (at >= owned)
                    break;
                if (word[i] >= 0)
                    store_word(words + word[i], uint64_t(free_for(other(i) + kExchangeRing)) << 32);
                float const sum = partials[turn * COLUMNS + at] + __uint_as_float(unsigned(got[i])); // the first's place
                Scale const scale(column >= 0 && column < g.inner ? divisor_of(sum, norm) : 1.f);
                float2 const sent = make_float2(scale.factor, scale.extra == 1.f ? 0.f : scale.extra);
                for (unsigned to = 0; to < blocks; ++to)
                    send_remote(factors + (turn * VEC + (s + 1) % VEC) * PITCH + (s + 1) / VEC, sent, factored + turn, to);
            }
        }
        return;
    }
    if (thread >= THREADS + ADDERS) // publishers
    {
        for (unsigned count = 0; count < tiles; ++count)
        {
            unsigned const turn = count % TURNS, item = item_of(count);
            Tile const tile = tile_of(item);
            if (lane == 0)
                bulk_announce(blocks * owned * unsigned(sizeof(float)), exchanged + turn);
            uint64_t* const word = words + item % kExchangeRing * COLUMNS + first_owned + lane;
            uint64_t there[OWNED]; // as a rule free for long
#pragma unroll
            for (int i = 0; i < OWNED; ++i)
                there[i] = lane + i * WARP < owned ? load_word(word + i * WARP) : 0;
            barrier_wait(exchanged + turn, count / TURNS % 2);
            float* const partial = partials + turn * COLUMNS;
            float sum[OWNED] = {};
#pragma unroll
            for (int i = 0; i < OWNED; ++i)
            {
                int const at = lane + i * WARP;
                if (at >= owned)
                    break;
#pragma unroll
                for (unsigned from = 0; from < kMostBlocksInCluster; ++from)
                    if (from < blocks)
                        sum[i] += partial[from * owned + at];
                partial[at] = sum[i];
            }
            __syncwarp();
            if (lane == 0)
                barrier_arrive(totalled + turn);
#pragma unroll
            for (int i = 0; i < OWNED; ++i)
            {
                int const at = lane + i * WARP;
                if (at >= owned)
                    break;
                while (unsigned(there[i] >> 32) != free_for(item))
                    there[i] = load_word(word + i * WARP);
                bool const nobodys = alone(tile, first_owned + at);
                unsigned const state = nobodys ? free_for(item + kExchangeRing) : written_by(item);
                store_word(word + i * WARP, uint64_t(state) << 32 | (nobodys ? 0 : __float_as_uint(sum[i])));
            }
            __syncwarp();
        }
        return;
    }
    if (thread >= THREADS) // adders
    {
        constexpr int EACH = COLUMNS / ADDERS;
        int const adder = thread - THREADS;
        float* to[EACH]; // where a column's sum goes, in its owner's memory
        unsigned owner[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
        {
            int const s = adder + i * ADDERS;
            owner[i] = unsigned(s / owned);
            to[i] = partials + rank * owned + s % owned;
        }
        for (unsigned count = 0; count < tiles; ++count)
        {
            unsigned const turn = count % TURNS, inner = unsigned(g.inner),
                           place = unsigned(start_of(tile_of(item_of(count)), first_channel)) + g.skew;
            barrier_wait(&summed, count % 2);
            float total[EACH] = {};
#pragma unroll
            for (int w = 0; w < WARPS; ++w)
#pragma unroll
                for (int i = 0; i < EACH; ++i)
                {
                    int const at = adder + i * ADDERS + 1 + int((place + w * inner) % VEC);
                    if (at < COLUMNS)
                        total[i] += sums[w * COLUMNS + at];
                }
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&added);
#pragma unroll
            for (int i = 0; i < EACH; ++i)
                send_remote(to[i] + turn * COLUMNS, total[i], exchanged + turn, owner[i]);
        }
        return;
    }

    // The halves of a warp have channels that lie alike in vectors.
    int const own = thread % VECTORS, half = lane / VECTORS, warp = thread / WARP, row = warp + half * WARPS,
              channel = first_channel + row;
    T* const places = stages + row * R * BLOCK;
    auto const place = [&](int slot, int r) { return places + (slot * Y * R + r) * BLOCK; };
    for (int i = 0; i < STAGES; ++i)
        for (int r = g.packs; r < R; ++r)
            Vector<T>::zeros().store(place(i, r) + own * VEC, false); // no copy comes there

    // Where the thread's channels lie: `at` elements inside a block of memory, of which the thread has vector `vector`.
    struct Place
    {
        int at, vector;
        bool before; // its columns are those before

        __device__ Place(int first, int own)
            : at(first), vector((own + first / VEC) % VECTORS), before(own + first / VEC >= VECTORS)
        {
        }
    };
    // Of the tiles from the one asked for last on, a byte each.
    std::conditional_t<STAGES + 1 <= 4, uint32_t, uint64_t> ats = 0;
    auto const place_of = [&](int before_last) { return Place(int(ats >> 8 * before_last) & 255, own); };
    static_assert(BLOCK <= 256 && STAGES + 1 <= 8, "or they need more");
    // A lane brings the blocks of all channels of one half.
    auto const fetch = [&](unsigned item, int slot) {
        __syncwarp(); // all lanes have read what was there
        Tile const tile = tile_of(item);
        int const at = int((unsigned(start_of(tile, channel)) + g.skew) % BLOCK);
        ats = ats << 8 | unsigned(at);
        if (item >= g.items || lane % VECTORS != 0)
            return;
        uint64_t* const barrier = loaded + slot * WARPS + warp;
        bulk_announce(g.packs * kExchangeBlockBytes, barrier);
        tensor_load(place(slot, 0), &x, int(channel * g.inner) - at + tile.k * BLOCK, 0, int(tile.outer), barrier);
    };
    for (int i = 0; i < STAGES; ++i)
        fetch(item_of(i), i);
    Vector<T> v[R];

    for (unsigned count = 0; count < tiles + LOOK; ++count)
    {
        int const ahead = STAGES - (count + 1 < LOOK ? 1 + int(count) : LOOK); // tiles asked for after this one
        if (count < tiles)
        {
            int const slot = int(count % STAGES);
            barrier_wait(loaded + slot * WARPS + warp, count / STAGES % 2);
            Place const p = place_of(ahead);
            float sum[VEC] = {};
#pragma unroll
            for (int r = 0; r < R; ++r) // what lies outside a channel is no column's
            {
                auto const u = Vector<T>::of_shared(place(slot, r) + p.vector * VEC);
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    sum[k] = fmaf(u[k], u[k], sum[k]);
            }
#pragma unroll
            for (int k = 0; k < VEC; ++k) // the first half keeps the columns before, the second those here
            {
                bool const keeps = p.before == (half == 0);
                float const theirs = __shfl_xor_sync(kWholeWarp, keeps ? 0.f : sum[k], VECTORS);
                sum[k] = (keeps ? sum[k] : 0.f) + theirs;
            }
            if (count > 0)
                barrier_wait(&added, (count - 1) % 2);
            auto* const to = reinterpret_cast<float4*>(sums + warp * COLUMNS + half * BLOCK + own * VEC);
#pragma unroll
            for (int k = 0; k < VEC; k += 4)
                to[k / 4] = make_float4(sum[k], sum[k + 1], sum[k + 2], sum[k + 3]);
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&summed);
        }
        if (count >= LOOK)
        {
            unsigned const done = count - LOOK, turn = done % TURNS;
            barrier_wait(factored + turn, done / TURNS % 2);
            Tile const tile = tile_of(item_of(done));
            Place const p = place_of(ahead + LOOK);
            auto const scale_of = [&](int k) { // of its column, which all channels share
                int const in_vector = k - p.at % VEC, less = in_vector < 0, vector = own + (p.before ? 0 : VECTORS);
                return factors[(turn * VEC + in_vector + less * VEC) * PITCH + vector - less];
            };
            float factor[VEC];
            unsigned extras = 0; // 0: every factor is all of it
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float2 const scale = scale_of(k);
                factor[k] = scale.x;
                extras |= __float_as_uint(scale.y);
            }
            constexpr unsigned ALL = (1u << VEC) - 1;
            int const first = tile.k * BLOCK + p.vector * VEC - p.at; // the first element's column
            int const from = max(-first, 0), stop = min(int(g.inner) - first, VEC);
            unsigned const inside = from < stop ? ALL >> (VEC - stop) & ALL << from : 0;
            T* out = y + start_of(tile, channel) + first;
#pragma unroll
            for (int r = 0; r < R; ++r, out += stride * g.inner)
            {
                if (r >= g.packs)
                    break;
                float scaled[VEC];
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    scaled[k] = v[r][k] * factor[k];
                if (weight.data)
#pragma unroll
                    for (int k = 0; k < VEC; ++k)
                        scaled[k] *= weights[row + r * Y];
                if (extras != 0)
#pragma unroll
                    for (int k = 0; k < VEC; ++k)
                    {
                        float const extra = scale_of(k).y;
                        scaled[k] *= extra == 0.f ? 1.f : extra;
                    }
                if (inside == ALL)
                    store_whole(out, Vector<T>::of(scaled));
                else
                    store_inside(out, Vector<T>::of(scaled), inside);
            }
        }
        if (count + 1 >= LOOK) // the next to be scaled
        {
            unsigned const next = count + 1 - LOOK;
            int const slot = int(next % STAGES);
            Place const p = place_of(ahead + LOOK - 1);
#pragma unroll
            for (int r = 0; r < R; ++r)
                v[r] = Vector<T>::of_shared(place(slot, r) + p.vector * VEC);
            fetch(item_of(next + STAGES), slot);
        }
    }
#endif
}

} // namespace surgeon
