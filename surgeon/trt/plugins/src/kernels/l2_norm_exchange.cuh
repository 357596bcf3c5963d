// L2Norm along an axis by whole blocks of memory, over clusters that exchange their sums.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

constexpr int kExchangeBlockBytes = 256; // of memory: pieces that begin and end on less cost up to a tenth
constexpr int kExchangeThreads = 512, kExchangePublishers = 32, kExchangePollers = 32;
constexpr int kExchangeStride = kExchangeThreads * kVectorBytes / kExchangeBlockBytes; // channels that a block has at once
constexpr int kExchangeRing = 256; // tiles that have words in memory at once

// Two columns' sums in memory, and their state. Every bit has a use: a register of a word that is on its way but not
// looked at would be given to something else, which would then wait for the word.
struct alignas(16) ExchangeWord
{
    float2 sums;
    uint64_t state;
};

// How [outer, channels, inner] is cut where channels begin anywhere: memory is seen as blocks of 256 bytes, and a tile
// is the k-th block of each channel of an outer index. So a tile has other columns of every channel, and twice a
// block's in all; but nothing is read or written by two tiles that is not the end of one channel and the begin of the
// next.
struct ChannelBlocks
{
    int inner;
    unsigned items, tiles; // tiles in all, tiles of one outer index
    FastDiv<uint32_t> over_tiles;
    int channels, packs; // packs: of a thread, a vector of a channel each, or one less
    unsigned skew;       // elements that lie between x's begin and a block of memory's
};

// How a block of threads works on tiles whose threads have up to R packs: in shared memory there are `stages`, and the
// registers have one tile more; of as many tiles as there are `turns` the sums are on their way, and one more than that
// are known ahead. A tile's columns are seen as vectors, [in a vector][vectors]; a block of a cluster owns some
// neighbouring vectors, fours of which come together.
template <class T, int R>
struct Exchange
{
    static constexpr int kMostPacks = sizeof(T) == 4 ? 25 : 24; // of all stages; floats have fewer sums beside them
    static constexpr int kStages = kMostPacks / R, kLook = kStages - 1, kTurns = kLook + 1;
    static constexpr int kAhead = kTurns + 1, kOrder = 16, kWarps = kExchangeThreads / 32;
    static_assert(kOrder > kAhead + kTurns, "or a tile is forgotten before all have done with it");
    static constexpr int kVector = kVectorBytes / sizeof(T), kBlock = kExchangeBlockBytes / sizeof(T);
    static constexpr int kColumns = 2 * kBlock, kVectors = kColumns / kVector, kFour = 4, kAdders = kColumns / kFour;
    static constexpr int kThreads = kExchangeThreads + kAdders + kExchangePublishers + kExchangePollers;
    static constexpr int kMostOwned = 2 * 32;          // two columns a lane
    // The bytes of a block's shared memory, in the order in which they lie there.
    static constexpr int kStageBytes = kStages * R * kExchangeThreads * kVectorBytes;
    static constexpr int kSumsBytes = kWarps * kColumns * int(sizeof(float));     // [warps][in a vector][vectors]
    static constexpr int kFactorsBytes = kTurns * kColumns * int(sizeof(float2));     // [turns][in a vector][vectors]
    static constexpr int kPartialsBytes = kTurns * kColumns * int(sizeof(float));     // [turns][blocks][owned]
    static constexpr int kBytes = kStageBytes + kSumsBytes + kFactorsBytes + kPartialsBytes;
    // What the kernel has besides: weights and barriers.
    static constexpr int kStaticBytes = kExchangeStride * R * int(sizeof(float))
        + (2 + 3 * kTurns + kStages * kWarps) * int(sizeof(uint64_t)) + kOrder * int(sizeof(float)) + 64;
};

#if SURGEON_DEVICE_HAS_WORDS_OF_16
__device__ inline ExchangeWord load_word(ExchangeWord const* p)
{
    uint64_t sums, state;
    asm volatile("{.reg .b128 v; ld.relaxed.gpu.global.b128 v, [%2]; mov.b128 {%0, %1}, v;}"
                 : "=l"(sums), "=l"(state) : "l"(p) : "memory");
    return ExchangeWord{make_float2(__uint_as_float(unsigned(sums)), __uint_as_float(unsigned(sums >> 32))), state};
}

__device__ inline void store_word(ExchangeWord* p, ExchangeWord const& w)
{
    uint64_t const sums = uint64_t(__float_as_uint(w.sums.y)) << 32 | __float_as_uint(w.sums.x);
    asm volatile("{.reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.gpu.global.b128 [%0], v;}" ::"l"(p), "l"(sums),
        "l"(w.state)
        : "memory");
}
#endif

// The blocks of a cluster share the channels: each thread has one vector of a block of memory from each of its
// channels, which are so far apart that they all begin equally far inside one. A thread's columns are always the same,
// or those that lie one block of memory before, where the channels begin late. While a tile's sums of squares are
// brought together, the threads scale and write the tile that came some tiles before, which they have in registers;
// others wait in shared memory. The sums go three ways. Adders add those of the block's warps and send each to the
// block of the cluster that owns its column; there they become the tile's. Half of a tile's columns have their other
// channels in the tile before, half in the tile after, which other clusters have: so publishers write the sums to
// memory, and pollers wait for the neighbours', and send the factors to all blocks of the cluster. A word in memory has
// two columns' sums and a state: twice the number of the tile that may write it, and one more once that has; who reads
// it hands it to the tile that is kExchangeRing later; all are 0 before and after. Neighbours are worked on at the same
// time: clusters draw tiles from *tickets, which is 0 before and after, and publish a tile before they wait for
// another's. A tile's number comes with the factors of one before. All clusters must be resident, for their first tiles
// are not drawn. Nobody waits in a circle: a cluster's tiles have rising numbers, and it sums the LOOK next before it
// writes one; so the neighbours of the first tile that is not written yet will be published whatever that one does.
template <class T, int R>
__global__ void __launch_bounds__(Exchange<T, R>::kThreads, 1)
    l2norm_exchange_kernel(const __grid_constant__ ChannelMaps x, Scalars weight, T* __restrict__ y, ChannelBlocks g,
        Norm norm, ExchangeWord* words, unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_WORDS_OF_16
    using E = Exchange<T, R>;
    constexpr int VEC = E::kVector, BLOCK = E::kBlock, COLUMNS = E::kColumns, VECTORS = E::kVectors;
    constexpr int THREADS = kExchangeThreads, ADDERS = E::kAdders, Y = kExchangeStride, WARP = 32, HALF = VECTORS / 2;
    constexpr int STAGES = E::kStages, LOOK = E::kLook, TURNS = E::kTurns, WARPS = E::kWarps, FOUR = E::kFour;
    constexpr unsigned AHEAD = E::kAhead, ORDER = E::kOrder;
    static_assert(WARPS % VEC == 0, "a warp's channels must lie alike in vectors");
    static_assert(ADDERS % WARP == 0 && VECTORS == WARP, "warps are adders as a whole, a lane has a vector of columns");
    extern __shared__ __align__(128) unsigned char exchange_memory[];
    // A tile's phases: the warps' sums are there, and added up; the owned columns' partials are here; their sums are;
    // the factors are here.
    __shared__ uint64_t summed, added, exchanged[TURNS], totalled[TURNS], factored[TURNS];
    __shared__ uint64_t loaded[STAGES * WARPS]; // a warp's part of a stage's tile is there
    __shared__ float weights[Y * R];
    __shared__ float order[ORDER]; // of this cluster's tiles, as bits: its n-th is at n % ORDER
    int const blocks = int(cluster_size()), rank = int(cluster_rank());
    unsigned const cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    T* const stages = reinterpret_cast<T*>(exchange_memory); // [STAGES][Y][R] blocks of memory
    float* const sums = reinterpret_cast<float*>(exchange_memory + E::kStageBytes);
    float2* const factors = reinterpret_cast<float2*>(exchange_memory + E::kStageBytes + E::kSumsBytes);
    float* const partials = reinterpret_cast<float*>(factors + TURNS * COLUMNS);
    int const thread = threadIdx.x, lane = thread % WARP, first_channel = rank * Y, stride = Y * blocks;
    int const owned_vectors = VECTORS / blocks, owned = owned_vectors * VEC; // columns: [in a vector][owned vectors]

    struct Tile
    {
        unsigned outer;
        int k; // its block of memory, counted from each channel's first
    };
    auto const item_of = [&](unsigned count) { return __float_as_uint(order[count % ORDER]); };
    auto const has = [&](unsigned count) { return item_of(count) < g.items; };
    // Behind it the number of the next tile is known: it is AHEAD of one whose factors are here.
    auto const know_next = [&](unsigned count) {
        if (count >= TURNS)
            barrier_wait(factored + count % TURNS, (count / TURNS - 1) % 2);
    };
    auto const tile_of = [&](unsigned item) {
        unsigned const outer = g.over_tiles(item);
        return Tile{outer, int(item - outer * g.tiles)};
    };
    auto const start_of = [&](Tile const& t, int channel) { return (int(t.outer) * g.channels + channel) * g.inner; };
    // A word's state when the tile may write it, and when it has.
    auto const free_for = [&](unsigned item) { return item < kExchangeRing || item >= g.items ? 0 : 2 * item; };
    auto const written_by = [&](unsigned item) { return 2 * item + 1; };
    if (thread == 0)
    {
        barrier_init(&summed, WARPS * kArrivalsOfWarp);
        barrier_init(&added, ADDERS / WARP * kArrivalsOfWarp);
        for (int i = 0; i < TURNS; ++i)
        {
            barrier_init(exchanged + i);
            barrier_init(totalled + i, kArrivalsOfWarp);
            barrier_init(factored + i);
        }
        for (int i = 0; i < STAGES * WARPS; ++i)
            barrier_init(loaded + i, WARP / HALF);
        for (unsigned i = 0; i < AHEAD; ++i)
            order[i] = __uint_as_float(cluster + i * clusters);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = thread; weight.data && i < Y * g.packs; i += blockDim.x)
    {
        int const channel = first_channel + i % Y + i / Y * stride;
        weights[i] = channel < g.channels ? weight.at(channel) : 1.f;
    }
    for (int i = thread; i < TURNS * COLUMNS; i += blockDim.x)
        factors[i] = make_float2(1.f, 0.f); // some are read that belong to no column
    __syncwarp();
    cluster_arrive(); // the others' barriers are ready
    cluster_wait();

    // The first of the lane's two owned columns. All owned ones have other channels in the tile before, or all in the
    // tile after, where half a tile's columns further they belong to `partner`; but `alone` where there is no such
    // tile.
    int const at = 2 * lane, partner = (rank + blocks / 2) % blocks;
    bool const owns = at < owned, with_before = rank < blocks / 2;
    auto const alone = [&](Tile const& t) { return t.k == (with_before ? 0 : int(g.tiles) - 1); };
    auto const word_of = [&](unsigned item, int owner) {
        return words + (item % kExchangeRing * COLUMNS + owner * owned + at) / 2;
    };
    if (thread >= THREADS + ADDERS + kExchangePublishers) // pollers
    {
        int const in_vector = at / owned_vectors, vector = rank * owned_vectors + at % owned_vectors;
        auto const other_of = [&](unsigned item) { return with_before ? item - 1 : item + 1; };
        auto const waits_for = [&](unsigned item) { return owns && item < g.items && !alone(tile_of(item)); };
        auto const look = [&](unsigned item) { // any word where there is none to wait for: a choice would wait for it
            return load_word(waits_for(item) ? word_of(other_of(item), partner) : words);
        };
        bool const draws = rank == 0 && lane == 0;
        // `got` was looked at while the tile before was handled; `next` is as a rule there when it is needed.
        auto const poll = [&](unsigned count, ExchangeWord& got, ExchangeWord& next) {
            unsigned const turn = count % TURNS, item = item_of(count), other = other_of(item);
            Tile const tile = tile_of(item);
            bool const waits = waits_for(item);
            ExchangeWord* const word = word_of(other, partner);
            unsigned drawn;
            if (draws) // comes while the sums do, where atomicAdd() would be waited for; the last leaves 0 behind
                drawn = atomicInc(tickets, g.items - 1);
            know_next(count);
            next = look(item_of(count + 1));
            barrier_wait(totalled + turn, count / TURNS % 2);
            __syncwarp(); // a lane that nobody waits for could miss a phase
            if (lane == 0)
                bulk_announce(unsigned(COLUMNS * sizeof(float2) + sizeof(float)), factored + turn);
            while (waits && got.state != written_by(other))
                got = load_word(word);
            __syncwarp(); // lanes that found theirs earlier would go on alone, and what follows be done again and again
            auto total = *reinterpret_cast<float2 const*>(partials + turn * COLUMNS + at); // the first's place
            if (waits)
            {
                store_word(word, ExchangeWord{{0.f, 0.f}, free_for(other + kExchangeRing)});
                total.x += got.sums.x, total.y += got.sums.y;
            }
            auto const scale_of = [&](int v, float sum) { // an extra of 0 is none
                int const column = (tile.k - 1) * BLOCK + v * VEC + in_vector;
                Scale const scale(column >= 0 && column < g.inner ? divisor_of(sum, norm) : 1.f);
                return make_float2(scale.factor, scale.extra == 1.f ? 0.f : scale.extra);
            };
            float2 const first = scale_of(vector, total.x), second = scale_of(vector + 1, total.y);
            auto* const here = reinterpret_cast<float4*>(factors + (turn * VEC + in_vector) * VECTORS + vector);
            for (int to = 0; owns && to < blocks; ++to)
                send_remote(here, make_float4(first.x, first.y, second.x, second.y), factored + turn, to);
            for (int to = 0; draws && to < blocks; ++to)
                send_remote(order + (count + AHEAD) % ORDER, __uint_as_float(AHEAD * clusters + drawn),
                    factored + turn, to);
        };
        ExchangeWord one = look(item_of(0)), two;
        for (unsigned count = 0; has(count); ++count)
        {
            poll(count, one, two);
            if (!has(++count))
                break;
            poll(count, two, one); // a word on its way cannot be moved
        }
        return;
    }
    if (thread >= THREADS + ADDERS) // publishers
    {
        for (unsigned count = 0; has(count); ++count)
        {
            unsigned const turn = count % TURNS, item = item_of(count);
            bool const nobodys = alone(tile_of(item));
            if (lane == 0)
                bulk_announce(COLUMNS * unsigned(sizeof(float)), exchanged + turn);
            ExchangeWord* const word = word_of(item, rank);
            ExchangeWord there{}, sum{};
            if (owns)
                there = load_word(word); // as a rule free for long
            know_next(count);
            barrier_wait(exchanged + turn, count / TURNS % 2);
            if (owns)
            {
                auto* const partial = reinterpret_cast<float2*>(partials + turn * COLUMNS + at);
#pragma unroll
                for (int from = 0; from < kMostBlocksInCluster; ++from)
                    if (from < blocks)
                    {
                        float2 const two = partial[from * owned / 2];
                        sum.sums.x += two.x, sum.sums.y += two.y;
                    }
                *partial = sum.sums;
            }
            warp_arrive(totalled + turn);
            while (owns && there.state != free_for(item))
                there = load_word(word);
            __syncwarp();
            sum.state = written_by(item);
            if (owns)
                store_word(word, nobodys ? ExchangeWord{{0.f, 0.f}, free_for(item + kExchangeRing)} : sum);
            __syncwarp();
        }
        return;
    }
    if (thread >= THREADS) // adders
    {
        int const adder = thread - THREADS, vector = adder * FOUR % VECTORS, in_vector = adder * FOUR / VECTORS;
        // Where the four columns' sums go, in their owner's memory.
        int const owner = vector / owned_vectors;
        float* const to = partials + rank * owned + in_vector * owned_vectors + vector % owned_vectors;
        auto const* const from = reinterpret_cast<float4 const*>(sums + adder * FOUR);
        for (unsigned count = 0; has(count); ++count)
        {
            unsigned const turn = count % TURNS;
            know_next(count);
            barrier_wait(&summed, count % 2);
            float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
            for (int w = 0; w < WARPS; ++w)
            {
                float4 const f = from[w * COLUMNS / FOUR];
                total.x += f.x, total.y += f.y, total.z += f.z, total.w += f.w;
            }
            warp_arrive(&added);
            send_remote(reinterpret_cast<float4*>(to + turn * COLUMNS), total, exchanged + turn, owner);
        }
        return;
    }

    // The halves of a warp have channels that lie alike in vectors.
    int const own = thread % HALF, half = lane / HALF, warp = thread / WARP, row = warp + half * WARPS,
              channel = first_channel + row;
    bool const less = channel + (g.packs - 1) * stride >= g.channels;
    int const packs = g.packs - less; // that the tensor has
    T* const places = stages + row * R * BLOCK; // [R] blocks of memory
    auto const place = [&](int slot, int r) { return places + (slot * Y * R + r) * BLOCK; };
    for (int i = 0; i < STAGES; ++i)
        for (int r = packs; r < R; ++r)
            Vector<T>::zeros().store(place(i, r) + own * VEC, false); // no copy comes there

    // Where the thread's channels lie: `at` elements inside a block of memory, of which the thread has vector `vector`.
    struct Place
    {
        int at, vector;
        bool before; // its columns are those before

        __device__ Place(int first, int own)
            : at(first), vector((own + first / VEC) % HALF), before(own + first / VEC >= HALF)
        {
        }
    };
    // Of the tiles from the one asked for last on, a byte each.
    std::conditional_t<STAGES + 1 <= 4, uint32_t, uint64_t> ats = 0;
    auto const place_of = [&](int before_last) { return Place(int(ats >> 8 * before_last & 255), own); };
    static_assert(BLOCK <= 256 && STAGES + 1 <= 8, "or they need more");
    // A lane brings the blocks of all channels of one half.
    auto const fetch = [&](unsigned item, int slot) {
        __syncwarp(); // all lanes have read what was there
        Tile const tile = tile_of(item);
        int const start = start_of(tile, channel), at = int((unsigned(start) + g.skew) % BLOCK);
        ats = ats << 8 | unsigned(at);
        if (item >= g.items || lane % HALF != 0)
            return;
        uint64_t* const barrier = loaded + slot * WARPS + warp;
        bulk_announce(unsigned(packs * kExchangeBlockBytes), barrier);
        tensor_load(place(slot, 0), less ? &x.less : &x.full, start - at + tile.k * BLOCK, 0, barrier);
    };
    for (int i = 0; i < STAGES; ++i)
        fetch(cluster + i * clusters, i);
    Vector<T> v[R];

    for (unsigned count = 0; count < LOOK || has(count - LOOK); ++count)
    {
        int const ahead = STAGES - (count + 1 < LOOK ? 1 + int(count) : LOOK); // tiles asked for after this one
        if (has(count))
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
                float const theirs = __shfl_xor_sync(kWholeWarp, keeps ? 0.f : sum[k], HALF);
                sum[k] = (keeps ? sum[k] : 0.f) + theirs;
            }
            if (count > 0)
                barrier_wait(&added, (count - 1) % 2);
            // The first `skip` belong to the vector before; the first vector's are zeros, for columns nobody has.
            int const skip = p.at % VEC, last = (lane + VECTORS - 1) % VECTORS;
            float *const own_sums = sums + warp * COLUMNS + lane - skip * VECTORS,
                         *const last_sums = sums + warp * COLUMNS + last + (VEC - skip) * VECTORS;
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                (k < skip ? last_sums : own_sums)[k * VECTORS] = sum[k];
            warp_arrive(&summed);
        }
        if (count >= LOOK)
        {
            unsigned const done = count - LOOK, turn = done % TURNS;
            barrier_wait(factored + turn, done / TURNS % 2);
            Tile const tile = tile_of(item_of(done));
            Place const p = place_of(ahead + LOOK);
            int const skip = p.at % VEC;
            float2 const* const own_factors = factors + turn * COLUMNS + own + (p.before ? 0 : HALF) - skip * VECTORS;
            float2 const* const last_factors = own_factors - 1 + VEC * VECTORS;
            auto const scale_of = [&](int k) { // of its column, which all channels share
                return (k < skip ? last_factors : own_factors)[k * VECTORS];
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
            int const from = max(-first, 0), stop = min(g.inner - first, VEC);
            unsigned const inside = from < stop ? ALL >> (VEC - stop) & ALL << from : 0;
            int const to = start_of(tile, channel) + first; // pointers take two registers
            auto const write = [&](auto whole) { // whether all is inside the channel, and every factor all of it
                constexpr bool WHOLE = decltype(whole)::value;
#pragma unroll
                for (int r = 0; r < R; ++r)
                {
                    if (r >= packs)
                        break;
                    T* const out = y + (to + r * stride * g.inner);
                    float scaled[VEC];
#pragma unroll
                    for (int k = 0; k < VEC; ++k)
                        scaled[k] = v[r][k] * factor[k];
                    if (weight.data)
#pragma unroll
                        for (int k = 0; k < VEC; ++k)
                            scaled[k] *= weights[row + r * Y];
                    if (!WHOLE && extras != 0)
#pragma unroll
                        for (int k = 0; k < VEC; ++k)
                        {
                            float const extra = scale_of(k).y;
                            scaled[k] *= extra == 0.f ? 1.f : extra;
                        }
                    if (WHOLE || inside == ALL)
                        store_whole(out, Vector<T>::of(scaled));
                    else
                        store_inside(out, Vector<T>::of(scaled), inside);
                }
            };
            if (__all_sync(kWholeWarp, inside == ALL && extras == 0))
                write(std::true_type{});
            else
                write(std::false_type{});
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
