// L2Norm along an axis by tiles of neighbouring columns, over clusters.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where blocks of whole vectors do not do: `inner` is no multiple of a vector or of
// a line, or the channels are so many that a block would hold a narrow tile only. A tile is `width` neighbouring
// columns by all channels, which the blocks of a cluster share.
struct ChannelTiles
{
    int64_t inner;
    unsigned items, tiles; // tiles in all, tiles of one outer index
    FastDiv<uint32_t> over_tiles;
    int channels;
    int width, extra; // extra: columns that a block needs beyond the tile, to write whole sectors
    int packs;        // of a thread: a vector of a channel each
    int box, unit;    // vectors that a copy brings of a channel, and in all, to whole lines
    int stages, lag;  // tiles in shared memory, and how many of those wait for their factors
};

constexpr int kTilesAdders = 128, kMostTilesPacks = 8, kMostTilesStages = 8, kMostTilesLag = 2;
constexpr int kVectorsOfLine = kLineBytes / kVectorBytes;

// Of a block of `x` vectors, which are whole lines: the lanes that share copies, and how many such parts a channel has.
__host__ __device__ constexpr int tiles_lanes(int x) { return x % 32 == 0 ? 32 : x % 16 == 0 ? 16 : kVectorsOfLine; }
__host__ __device__ constexpr int tiles_parts(int x) { return x / tiles_lanes(x); }

// The channels that it takes at once: up to 512 threads, in whole warps of one part.
__host__ __device__ constexpr int tiles_rows(int x)
{
    int const of_warp = 32 / tiles_lanes(x);
    return 512 / x / of_warp * of_warp;
}
__host__ __device__ constexpr int tiles_threads(int x) { return x * tiles_rows(x); }

// The floats of a block's shared memory, in the order in which they lie there.
struct TilesMemory
{
    int sums, factors, extras, weights, partials;

    __host__ __device__ constexpr TilesMemory(int x, int vec, int sector, int blocks, int turns)
        : sums(tiles_rows(x) * (x * vec + sector)),    // [Y][columns + sector]
          factors(turns * 2 * (x * vec + 2 * sector)), // [turns][2][columns + 2 sectors]: for even and odd shifts
          extras(turns * x * vec),                     // [turns][columns]
          weights(tiles_rows(x) * kMostTilesPacks),    // [Y][packs]
          partials(2 * blocks * (x * vec > kTilesAdders ? x * vec : kTilesAdders)) // [2][blocks][parts][columns]
    {
    }
    __host__ __device__ constexpr int floats() const { return sums + factors + extras + weights + partials; }
};

// The block is X vectors by THREADS / X channels, and some warps of adders; a thread has the vectors of up to R
// channels, so far apart (a multiple of a sector's elements) that all of its pieces begin equally far inside a sector.
// The blocks of a cluster take channels in turn, so that all have as many, but for one. One tensor copy brings a warp,
// or the lanes of it that share channels, all that they have of a tile. While the adders bring a tile's sums of squares
// together, the threads scale and write the tile before it, or where tiles are small the one before that, and those
// after it come. The blocks of a cluster send each other their sums: a barrier of the cluster would wait for the tile
// before to be written.
// Every memory sector whose first element is in the tile is written whole, but at a channel's ends: hence the `extra`
// columns. Vectors are counted from a sector's begin: loads that cut sectors cost a tenth of the time.
// Clusters draw their tiles from *tickets, which is 0 before and after, so that the tiles at work are neighbours and
// the DRAM's pages are used while they are open; without tickets the clusters take tiles in turn.
template <class T, int X, int R>
__global__ void __launch_bounds__(tiles_threads(X) + kTilesAdders, 1)
    l2norm_tiles_kernel(const __grid_constant__ ChannelMaps x, Scalars weight, T* __restrict__ y, ChannelTiles g,
        Norm norm, unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), SECTOR = kSectorBytes / sizeof(T);
    constexpr int THREADS = tiles_threads(X), ADDERS = kTilesAdders, ORDER = 16;
    constexpr int TURNS = kMostTilesLag + 1, WARP = 32, WARPS = THREADS / WARP;
    // A unit is the lanes that share copies; a warp's have the same part of their channels.
    constexpr int LANES = tiles_lanes(X), UNITS = THREADS / LANES, OF_ROW = tiles_parts(X), OF_WARP = WARP / LANES;
    constexpr int Y = tiles_rows(X), COLUMNS = X * VEC, PITCH = COLUMNS + SECTOR, SHIFTED = PITCH + SECTOR;
    static_assert(ORDER > kMostTilesStages + kMostTilesLag + 1, "or a tile is forgotten before all have done with it");
    extern __shared__ __align__(128) unsigned char tiles_memory[];
    // A tile's phases: its sums are in the block's memory, and added up; the cluster's are here; its factors are.
    __shared__ uint64_t summed, added, exchanged[2], factored[TURNS];
    __shared__ uint64_t loaded[kMostTilesStages * WARPS]; // a warp's part of a stage's tile is there
    __shared__ __align__(16) int all_usual[TURNS][ADDERS / WARP]; // by warp of adders: no factor needs its extra
    __shared__ float order[ORDER];                // of this cluster's tiles, as bits: its n-th is at n % ORDER
    unsigned const blocks = cluster_size(), cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    unsigned const ahead = g.stages - g.lag, turns = g.lag + 1; // ahead: tiles asked for, with the one that is summed
    TilesMemory const memory(X, VEC, SECTOR, 1, int(turns));
    T* const stages = reinterpret_cast<T*>(tiles_memory); // [stages][UNITS] units
    float* const sums = reinterpret_cast<float*>(stages + g.stages * UNITS * g.unit * VEC);
    float* const factors = sums + memory.sums;
    float* const extras = factors + memory.factors;
    float* const weights = extras + memory.extras;
    float* const partials = weights + memory.weights;
    int const thread = threadIdx.x, first_channel = int(cluster_rank()), stride = Y * int(blocks);

    struct Tile
    {
        unsigned start; // of a channel's piece: a launch has fewer than 2^31 elements
        int begin;      // its first column

        __device__ int lo() const { return int(start % SECTOR); } // what the sector holds before it
    };
    auto const item_of = [&](unsigned count) { return __float_as_uint(order[count % ORDER]); };
    unsigned const inner = unsigned(g.inner), image = unsigned(g.channels) * inner;
    auto const tile_of = [&](unsigned item, unsigned offset) { // offset: of the channel in an image
        unsigned const outer = g.over_tiles(item), begin = (item - outer * g.tiles) * unsigned(g.width);
        return Tile{outer * image + offset + begin, int(begin)};
    };
    auto const needed = [&](Tile const& t) { return min(g.width + g.extra, int(inner) - t.begin); };
    if (thread == 0)
    {
        barrier_init(&summed, THREADS);
        barrier_init(&added, ADDERS);
        for (int i = 0; i < 2; ++i)
            barrier_init(exchanged + i);
        for (int i = 0; i < TURNS; ++i)
            barrier_init(factored + i, ADDERS);
        for (int i = 0; i < g.stages * WARPS; ++i)
            barrier_init(loaded + i, WARP / LANES);
        for (int i = 0; i < g.stages; ++i)
            order[i] = __uint_as_float(cluster + i * clusters);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    await_predecessors();
    for (int i = thread; i < Y * R; i += THREADS + ADDERS)
    {
        int const channel = first_channel + i / R * int(blocks) + i % R * stride;
        weights[i] = weight.data && channel < g.channels ? weight.at(channel) : 1.f;
    }

    if (thread >= THREADS)
    {
        // An adder has EACH columns, or one of PARTS shares of a column's rows.
        constexpr int EACH = ceil_div(COLUMNS, ADDERS), PARTS = COLUMNS < ADDERS ? ADDERS / COLUMNS : 1;
        constexpr int ROWS = Y / PARTS, SENT = COLUMNS * PARTS;
        int const adder = thread - THREADS, column = adder % COLUMNS, first_row = adder / COLUMNS * ROWS;
        auto const has = [&](int j, int columns) { return columns % ADDERS == 0 || adder + j * ADDERS < columns; };
        bool const draws = cluster_rank() == 0 && adder == 0;
        unsigned drawn = cluster;
        if (draws && tickets)
            drawn = atomicAdd(tickets, 1u);
        cluster_arrive(); // the others' barriers are ready
        cluster_wait();
        int turn_of_factors = 0;
        for (unsigned count = 0; item_of(count) < g.items; ++count)
        {
            unsigned const turn = count % 2, row = blocks * inner; // to the block's next channel
            Tile const tile = tile_of(item_of(count), unsigned(first_channel) * inner);
            barrier_wait(&summed, count % 2);
            float total[EACH] = {};
            unsigned shift = tile.start + first_row * row;
#pragma unroll
            for (int i = 0; i < ROWS; ++i, shift += row) // a row has the columns shifted by its place in a sector
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                    if (has(j, SENT))
                        total[j] += sums[(first_row + i) * PITCH + column + j * ADDERS + int(shift % SECTOR)];
            barrier_arrive(&added);
            if (adder == 0 && blocks > 1)
                bulk_announce((blocks * SENT + 1) * unsigned(sizeof(float)), exchanged + turn);
            // What is sent for the tile after the next is sent after all have read this one's.
            float* const partial = partials + turn * blocks * SENT;
            auto const send = [&](float* to, float f) { // st.async is for clusters of two or more
                if (blocks == 1)
                    *to = f;
                else
                    for (unsigned rank = 0; rank < blocks; ++rank)
                        send_remote(to, f, exchanged + turn, rank);
            };
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                if (has(j, SENT))
                    send(partial + cluster_rank() * SENT + adder + j * ADDERS, total[j]);
            if (draws)
            {
                send(order + (count + g.stages) % ORDER, __uint_as_float(g.stages * clusters + drawn));
                if (tickets)
                    drawn = atomicAdd(tickets, 1u); // looked at when the next sums are sent
                else
                    drawn += clusters;
            }
            if (blocks == 1)
                asm volatile("bar.sync 1, %0;" ::"n"(ADDERS) : "memory");
            else
                barrier_wait(exchanged + turn, count / 2 % 2);
            bool usual = true;
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                if (has(j, COLUMNS))
                {
                    int const at = column + j * ADDERS;
                    float all = 0.f;
#pragma unroll
                    for (unsigned i = 0; i < kMostBlocksInCluster * PARTS; ++i)
                        if (i < blocks * PARTS)
                            all += partial[i * COLUMNS + at];
                    Scale const scale(at < needed(tile) ? divisor_of(all, norm) : 1.f);
                    usual = usual && scale.extra == 1.f;
                    extras[turn_of_factors * COLUMNS + at] = scale.extra;
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        factors[(turn_of_factors * 2 + i) * SHIFTED + SECTOR + at + i] = scale.factor;
                }
            usual = __all_sync(kWholeWarp, usual);
            if (adder % WARP == 0)
                all_usual[turn_of_factors][adder / WARP] = usual;
            barrier_arrive(factored + turn_of_factors);
            turn_of_factors = turn_of_factors == g.lag ? 0 : turn_of_factors + 1;
        }
        if (draws && tickets && drawn == g.items + clusters - 1)
            *tickets = 0; // every tile has drawn once, and every cluster once more
        return;
    }

    int const own = thread % LANES, warp = thread / WARP, row = warp / OF_ROW * OF_WARP + thread % WARP / LANES,
              first_vector = warp % OF_ROW * g.box, from_lo = (first_vector + own) * VEC,
              channel = first_channel + row * int(blocks);
    int const of_unit = ceil_div(max(g.channels - channel, 0), stride), packs = own < g.box ? of_unit : 0;
    unsigned const offset = unsigned(channel) * inner, step = unsigned(stride) * inner;
    int const pitch = g.box * VEC;
    T* const places = stages + thread / LANES * g.unit * VEC;
    auto const place = [&](int slot, int r, int lane) {
        return places + slot * UNITS * g.unit * VEC + r * pitch + lane * VEC;
    };
    auto const fetch = [&](unsigned item, int slot) {
        __syncwarp(); // all lanes have read what was there
        if (item >= g.items || own != 0)
            return;
        Tile const tile = tile_of(item, offset);
        uint64_t* const barrier = loaded + slot * WARPS + warp;
        bulk_announce(of_unit * g.box * kVectorBytes, barrier);
        if (of_unit > 0)
            tensor_load(place(slot, 0, 0), of_unit == g.packs ? &x.full : &x.less,
                int(tile.start) - tile.lo() + from_lo, 0, barrier);
    };
    cluster_arrive();
    cluster_wait();
    for (unsigned i = 0; i < ahead; ++i)
        fetch(cluster + i * clusters, i);

    Ring summing;    // the tile whose squares are summed
    Ring factors_of; // the tile that is written
    for (unsigned count = 0; count < g.lag || item_of(count - g.lag) < g.items; ++count)
    {
        int const slot = summing.stage;
        if (item_of(count) < g.items)
        {
            barrier_wait(loaded + slot * WARPS + warp, summing.phase);
            Vector<T> v[R];
            T const* from = place(slot, 0, own);
#pragma unroll
            for (int r = 0; r < R; ++r, from += pitch)
                v[r] = r < packs ? Vector<T>::of_shared(from) : Vector<T>::zeros();
            float sum[VEC] = {};
#pragma unroll
            for (int r = 0; r < R; ++r) // beyond what is needed they are anything, and nobody's
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    sum[k] = fmaf(v[r][k], v[r][k], sum[k]);
            if (count > 0)
                barrier_wait(&added, (count - 1) % 2);
            auto* const to = reinterpret_cast<float4*>(sums + row * PITCH + from_lo);
#pragma unroll
            for (int k = 0; k < VEC && own < g.box; k += 4)
                to[k / 4] = make_float4(sum[k], sum[k + 1], sum[k + 2], sum[k + 3]);
            barrier_arrive(&summed);
        }
        int const slot_before = slot < g.lag ? slot - g.lag + g.stages : slot - g.lag;
        summing.advance(g.stages);
        if (count < g.lag)
        {
            fetch(item_of(count + ahead), slot_before);
            continue;
        }
        int const turn_before = factors_of.stage;
        barrier_wait(factored + turn_before, factors_of.phase);
        factors_of.advance(int(turns));
        static_assert(ADDERS / WARP == 4, "the adders' warps fill an int4");
        int4 const usual_of = *reinterpret_cast<int4 const*>(all_usual[turn_before]);
        bool const usual = (usual_of.x & usual_of.y & usual_of.z & usual_of.w) != 0;
        Tile const before = tile_of(item_of(count - g.lag), offset);

        // What the tile owns of the piece, counted from a sector's begin.
        auto const whole_sectors = [](unsigned columns) { return int((columns + SECTOR - 1) / SECTOR * SECTOR); };
        int const lo = before.lo(), columns = int(inner) - before.begin, end = lo + columns;
        int const first = before.begin == 0 ? lo : whole_sectors(lo);
        int const stop = columns <= g.width + g.extra ? end : min(whole_sectors(lo + g.width), end);
        float const* const factors_before = factors + turn_before * 2 * SHIFTED + SECTOR;
        // A vector of all of the unit's channels by elements: a lane has the same one of every few channels, and waits
        // for all of them at once.
        auto const write_elements = [&](int vector) {
            constexpr int APART = LANES / VEC, EACH = ceil_div(R, APART);
            static_assert(LANES % VEC == 0, "or a lane has other columns of the next channel");
            int const lane = vector - first_vector, k = own % VEC, at = vector * VEC + k, column = at - lo;
            if (lane < 0 || lane >= g.box || at < first || at >= stop || of_unit == 0)
                return;
            float const factor = factors_before[column], extra = extras[turn_before * COLUMNS + column];
            T const* const element = place(slot_before, 0, lane) + k;
            T out[EACH];
#pragma unroll
            for (int j = 0; j < EACH; ++j)
            {
                int const r = min(own / VEC + j * APART, of_unit - 1); // rather than a branch around each
                out[j] = from_float<T>(to_float(element[r * pitch]) * factor * weights[row * R + r] * extra);
            }
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                if (int const r = own / VEC + j * APART; r < of_unit)
                    y[before.start + unsigned(r) * step + column] = out[j];
        };
        if (!usual)
            for (int vector = 0; vector < X; ++vector)
                write_elements(vector);
        else
        {
            if (first % VEC != 0) // a channel's begin
                write_elements(first / VEC);
            if (stop % VEC != 0) // its end
                write_elements(stop / VEC);
        }

        Vector<T> v[R];
        T const* from = place(slot_before, 0, own);
#pragma unroll
        for (int r = 0; r < R; ++r, from += pitch)
            if (r < packs)
                v[r] = Vector<T>::of_shared(from);
        fetch(item_of(count + ahead), slot_before);
        if (!usual || from_lo < first || from_lo + VEC > stop)
            continue;
        float factor[VEC];
        auto const* const f
            = reinterpret_cast<float2 const*>(factors_before + lo % 2 * SHIFTED + from_lo - lo / 2 * 2);
#pragma unroll
        for (int k = 0; k < VEC; k += 2)
        {
            float2 const two = f[k / 2];
            factor[k] = two.x, factor[k + 1] = two.y;
        }
        auto const write = [&](auto weighted) {
            T* p = y + (before.start + from_lo - lo);
#pragma unroll
            for (int r = 0; r < R; ++r, p += step)
            {
                float out[VEC];
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                {
                    out[k] = v[r][k] * factor[k];
                    if constexpr (decltype(weighted)::value)
                        out[k] *= weights[row * R + r];
                }
                store_whole(p, Vector<T>::of(out), r < packs);
            }
        };
        if (weight.data)
            write(std::true_type{});
        else
            write(std::false_type{});
    }
#endif
}

} // namespace surgeon
