#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

#if CUDART_VERSION >= 12010
// The driver's function that makes tensor maps; nullptr where it has none.
void* find_encoder()
{
    void* encode = nullptr;
    constexpr char const* kName = "cuTensorMapEncodeTiled";
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    cudaError_t const status = cudaGetDriverEntryPointByVersion(kName, &encode, 12000, cudaEnableDefault, &found);
#else
    cudaError_t const status = cudaGetDriverEntryPoint(kName, &encode, cudaEnableDefault, &found);
#endif
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? encode : nullptr;
}

cudaError_t tensor_map(CUtensorMap& map, Type type, void const* x, int64_t elements, int64_t step, int packs,
    int columns)
{
    static void* const encode = find_encoder();
    if (!encode)
        return cudaErrorNotSupported;
    uint64_t const size = size_of(type), extents[] = {uint64_t(elements - (packs - 1) * step), uint64_t(packs)},
                   strides[] = {step * size};
    uint32_t const box[] = {uint32_t(columns), uint32_t(packs)}, ones[] = {1, 1};
    auto const data = size == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    CUresult const result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(&map, data, 2,
        const_cast<void*>(x), extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

// x as [packs][elements] for tensor copies: each pack is x again, `step` elements after the one before, so that a box
// of all packs by `columns` may begin at any vector. Nothing behind the last element is asked for. With one pack there
// is no map of one less.
cudaError_t tensor_maps(ChannelMaps& maps, Type type, void const* x, int64_t elements, int64_t step, int packs,
    int columns)
{
    cudaError_t const status = tensor_map(maps.full, type, x, elements, step, packs, columns);
    return status != cudaSuccess || packs == 1
        ? status
        : tensor_map(maps.less, type, x, elements, step, packs - 1, columns);
}
#else
cudaError_t tensor_maps(ChannelMaps&, Type, void const*, int64_t, int64_t, int, int)
{
    return cudaErrorNotSupported;
}
#endif

int packs_of(TilesPlan const& plan, int64_t channels)
{
    return int(ceil_div(channels, int64_t(tiles_rows(plan.x)) * plan.blocks));
}

int whole_lines(int vectors) { return int(ceil_div(vectors, kVectorsOfLine) * kVectorsOfLine); }

ChannelTiles channel_tiles(TilesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner)
{
    // Tiles begin at multiples of `step`, so that is what all of their pieces' places in a sector are multiples of.
    int64_t const sector = kSectorBytes / size_of(type), step = std::gcd(inner, int64_t(kLineBytes / size_of(type)));
    int const vec = vector_elements(type);
    ChannelTiles g{};
    g.inner = inner;
    g.channels = int(channels);
    g.extra = int(std::max(sector - step, int64_t(0)));
    // The last tile of a channel has up to `extra` columns more, since nothing follows.
    int64_t const most = (plan.x * vec - 2 * g.extra) / step * step,
                  inside = std::max(inner - g.extra, int64_t(1));
    g.width = int(ceil_div(ceil_div(inside, ceil_div(inside, most)), step) * step);
    g.tiles = unsigned(ceil_div(inside, int64_t(g.width)));
    g.items = unsigned(outer * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    g.packs = packs_of(plan, channels);
    int const boxes = tiles_parts(plan.x);
    g.box = std::min(whole_lines(ceil_div(g.width + 2 * g.extra, vec * boxes)), tiles_lanes(plan.x));
    g.unit = whole_lines(g.packs * g.box);
    g.stages = plan.stages;
    g.lag = plan.lag;
    return g;
}

int64_t memory_bytes(TilesPlan const& plan, Type type)
{
    TilesMemory const memory(
        plan.x, vector_elements(type), int(kSectorBytes / size_of(type)), plan.blocks, plan.lag + 1);
    return memory.floats() * int64_t(sizeof(float));
}

int64_t stage_bytes(TilesPlan const& plan, int64_t channels)
{
    int64_t const units = tiles_rows(plan.x) * tiles_parts(plan.x);
    return units * whole_lines(packs_of(plan, channels) * tiles_lanes(plan.x)) * kVectorBytes;
}

int64_t block_bytes(TilesPlan const& plan, Type type, int64_t channels)
{
    return memory_bytes(plan, type) + plan.stages * stage_bytes(plan, channels);
}

int64_t most_tiles_bytes()
{
    constexpr int64_t kBarriers = 1 << 10; // of the kernel, beyond what others have
    return most_shared_of_block() - kBarriers;
}

cudaError_t launch_part(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y, int64_t outer,
    int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    ChannelTiles const g = channel_tiles(plan, type, outer, channels, inner);
    ChannelMaps maps{};
    int64_t const step = int64_t(tiles_rows(plan.x)) * plan.blocks * inner;
    cudaError_t const status = tensor_maps(
        maps, type, x, outer * channels * inner, step, g.packs, g.box * vector_elements(type));
    if (status != cudaSuccess)
        return status;
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto width, auto packs) {
            constexpr int X = decltype(width)::value, R = decltype(packs)::value;
            // As much memory for any plan: how many clusters there are takes long to ask.
            return launch_resident(l2norm_tiles_kernel<T, X, R>, plan.blocks, tiles_threads(X) + kTilesAdders,
                most_tiles_bytes(), g.items, on, maps, weight, static_cast<T*>(y), g, norm, tickets);
        };
        auto const with_packs = [&](auto width) {
            switch (g.packs)
            {
            case 5: return go(width, std::integral_constant<int, 5>{});
            case 6: return go(width, std::integral_constant<int, 6>{});
            case 7: return go(width, std::integral_constant<int, 7>{});
            case 8: return go(width, std::integral_constant<int, 8>{});
            default: return go(width, std::integral_constant<int, 4>{});
            }
        };
        switch (plan.x)
        {
        case 8: return with_packs(std::integral_constant<int, 8>{});
        case 16: return with_packs(std::integral_constant<int, 16>{});
        case 24:
            if constexpr (sizeof(T) < 4)
                return with_packs(std::integral_constant<int, 24>{});
            break;
        case 32: return with_packs(std::integral_constant<int, 32>{});
        case 64: return with_packs(std::integral_constant<int, 64>{});
        }
        return cudaErrorInvalidValue;
    });
}

// The part of the tiles' columns that a plane fills.
double filled(TilesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const tiles = channel_tiles(plan, type, 1, channels, inner).tiles;
    return double(inner) / double(tiles * plan.x * vector_elements(type));
}

// Narrower than `x`, over fewer blocks, where short planes would leave columns empty. With as many stages as there are;
// where these are enough, a tile's sums have the time of two tiles.
TilesPlan plan_over(int blocks, int x, Type type, int64_t channels, int64_t inner)
{
    constexpr int kNarrow = 16, kEnough = 4;
    constexpr double kNearly = 0.85;
    auto const of_width = [&](int width) {
        TilesPlan plan{blocks, width, 0, 1};
        while (plan.blocks > 1 && packs_of(TilesPlan{plan.blocks / 2, width, 0, 0}, channels) <= kMostTilesPacks)
            plan.blocks /= 2;
        return plan;
    };
    double fullest = 0;
    for (int width = x; width >= std::min(x, kNarrow); width /= 2)
        fullest = std::max(fullest, filled(of_width(width), type, channels, inner));
    while (x > kNarrow && filled(of_width(x), type, channels, inner) < kNearly * fullest)
        x /= 2;
    TilesPlan plan = of_width(x);
    for (int lag : {2, 1})
    {
        plan.lag = lag;
        int64_t const left = most_tiles_bytes() - memory_bytes(plan, type);
        plan.stages = int(std::clamp<int64_t>(left / stage_bytes(plan, channels), 0, kMostTilesStages));
        if (plan.stages >= kEnough)
            break;
    }
    return tiles_fit(plan, type, channels) ? plan : kNoTiles;
}

} // namespace

bool tiles_fit(TilesPlan const& plan, Type type, int64_t channels)
{
    bool const compiled = plan.x == 8 || plan.x == 16 || plan.x == 32 || plan.x == 64
        || (plan.x == 24 && type != Type::kFloat);
    return kStAsync && device().clusters && compiled && plan.blocks >= 1 && plan.blocks <= kMostBlocksInCluster
        && tiles_rows(plan.x) * plan.blocks * size_of(type) % kSectorBytes == 0
        && packs_of(plan, channels) <= kMostTilesPacks && plan.lag >= 1 && plan.lag <= kMostTilesLag
        && plan.lag + 1 < plan.stages && plan.stages <= kMostTilesStages
        && block_bytes(plan, type, channels) <= most_tiles_bytes();
}

// So many vectors of a block, over so many blocks, that a tile has much of each channel.
TilesPlan plan_tiles(Type type, int64_t channels, int64_t inner)
{
    struct Line
    {
        int most_channels, x, blocks;
    };
    constexpr Line kFloats[] = {{64, 64, 1}, {128, 64, 2}, {256, 64, 4}, {512, 64, 8}, {1024, 32, 8}, {2048, 16, 8},
                       {4096, 8, 8}},
                   kHalves[] = {{128, 32, 1}, {256, 32, 2}, {512, 32, 4}, {1024, 16, 4}, {1280, 24, 8}, {2048, 16, 8},
                       {4096, 8, 8}};
    auto const of = [&](auto const& table) {
        auto const line = std::find_if(
            std::begin(table), std::end(table), [&](Line const& l) { return channels <= l.most_channels; });
        return line == std::end(table) ? kNoTiles : plan_over(line->blocks, line->x, type, channels, inner);
    };
    return type == Type::kFloat ? of(kFloats) : of(kHalves);
}

cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    // So many images at once that a copy's place in them has 31 bits, and whole vectors.
    int64_t const image = channels * inner, vec = vector_elements(type),
                  part = std::min(kMostBlocks / image / vec * vec, kMostBlocks / inner / vec * vec);
    if (!tiles_fit(plan, type, channels) || inner >= (int64_t(1) << 30) || part == 0)
        return cudaErrorInvalidValue;
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < outer && status == cudaSuccess; first += part)
    {
        int64_t const bytes = first * image * size_of(type);
        status = launch_part(plan, type, static_cast<char const*>(x) + bytes, weight, static_cast<char*>(y) + bytes,
            std::min(part, outer - first), channels, inner, norm, tickets, on);
    }
    return status;
}

} // namespace surgeon
