#include "launch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

namespace surgeon
{

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner)
{
    int const element = int(size_of(type));
    int pack = kVectorBytes;
    while (pack > element && (inner * element) % pack != 0)
        pack = pack == 16 ? 8 : element;
    bool const wide = pack == kVectorBytes;
    int const usual = wide ? 8 : 16, most = wide ? 16 : 32, crowded = wide ? 64 : 16;
    int packs = std::min(next_power_of_two(channels), usual);
    int y = next_power_of_two(ceil_div(channels, int64_t(packs)));
    if (y > crowded && packs < most)
    {
        packs *= 2;
        y /= 2;
    }
    // Small blocks where all are resident at once: some write while others still read.
    bool const one_wave = outer * inner * element / pack * y <= int64_t(device().multiprocessors) * 1024;
    int const threads = y == 1 ? 256 : y > 8 ? 512 : one_wave ? 64 : 128;
    return ColumnsPlan{pack, packs, std::max(threads / y, 1), y};
}

namespace
{

template <class T, int VEC, int R, bool ALONE>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    int64_t const columns = outer * inner / VEC, blocks = ceil_div(columns, int64_t(plan.x));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    size_t const sums = ALONE ? 0 : size_t(plan.x) * (plan.y + 2) * VEC;
    size_t const shared = (size_t(kept_weights(int(channels))) + sums) * sizeof(float);
    l2norm_columns_kernel<T, VEC, R, ALONE><<<unsigned(blocks), dim3(plan.x, plan.y), shared, on>>>(
        x, weight, y, columns, inner / VEC, int(channels), norm, stream);
    return cudaGetLastError();
}

// Only the combinations that plan_columns() makes are compiled.
template <class T, int VEC>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    constexpr bool WIDE = VEC * sizeof(T) == kVectorBytes;
    auto const go = [&](auto packs, auto alone) {
        return launch_columns<T, VEC, decltype(packs)::value, decltype(alone)::value>(
            plan, x, weight, y, outer, channels, inner, norm, stream, on);
    };
    bool const alone = plan.y == 1;
    std::integral_constant<int, 8> const eight{};
    std::integral_constant<int, 16> const sixteen{};
    switch (plan.packs)
    {
    case 1: return alone ? go(std::integral_constant<int, 1>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 2: return alone ? go(std::integral_constant<int, 2>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 4: return alone ? go(std::integral_constant<int, 4>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 8:
        if constexpr (WIDE)
            return alone ? go(eight, std::true_type{}) : go(eight, std::false_type{});
        else
            return alone ? go(eight, std::true_type{}) : cudaErrorInvalidValue;
    case 16:
        if constexpr (WIDE)
            return go(sixteen, std::false_type{});
        else
            return alone ? go(sixteen, std::true_type{}) : go(sixteen, std::false_type{});
    case 32:
        if constexpr (!WIDE)
            return go(std::integral_constant<int, 32>{}, std::false_type{});
    }
    return cudaErrorInvalidValue;
}

template <class T>
cudaError_t launch_long_columns(T const* x, Scalars weight, T* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, cudaStream_t on)
{
    dim3 const block = inner == 1 ? dim3(1, 512) : dim3(32, 16);
    int64_t const columns = outer * inner, blocks = ceil_div(columns, int64_t(block.x));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    l2norm_long_columns_kernel<T><<<unsigned(blocks), block, block.x * block.y * sizeof(float), on>>>(
        x, weight, y, columns, inner, channels, norm);
    return cudaGetLastError();
}

template <class T, int R>
cudaError_t launch_l2norm_rows(RowsPlan const& plan, T const* x, Scalars weight, T* y, int64_t rows, int64_t length,
    Norm norm, bool stream, cudaStream_t on)
{
    int64_t const blocks = ceil_div(rows, int64_t(plan.threads / plan.lanes));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    l2norm_rows_kernel<T, R><<<unsigned(blocks), plan.threads, 0, on>>>(
        x, weight, y, rows, int(length), plan.lanes, norm, stream);
    return cudaGetLastError();
}

} // namespace

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (int64_t(plan.packs) * plan.y < channels)
            return launch_long_columns<T>(in, weight, out, outer, channels, inner, norm, on);
        switch (plan.pack_bytes / sizeof(T))
        {
        case 1: return launch_columns<T, 1>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 8 / sizeof(T):
            return launch_columns<T, 8 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 16 / sizeof(T):
            return launch_columns<T, 16 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

namespace
{

ChannelTiles channel_tiles(TilesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner)
{
    // Tiles begin at multiples of `step`, so that is what all of their pieces' places in a sector are multiples of.
    int64_t const sector = kSectorBytes / size_of(type), step = std::gcd(inner, int64_t(kLineBytes / size_of(type)));
    ChannelTiles g{};
    g.elements = outer * channels * inner;
    g.inner = inner;
    g.channels = int(channels);
    g.extra = int(std::max(sector - step, int64_t(0)));
    int64_t const most = (plan.x * vector_elements(type) - 2 * g.extra) / step * step;
    g.tiles = unsigned(ceil_div(inner, most));
    g.width = int(ceil_div(ceil_div(inner, int64_t(g.tiles)), step) * step);
    g.items = unsigned(outer * g.tiles);
    int64_t const spanned = ceil_div(int64_t(vector_elements(type)), channels * inner); // outer indices, by a vector
    g.within = unsigned(std::max(outer - spanned, int64_t(0)) * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    return g;
}

size_t tiles_bytes(TilesPlan const& plan, Type type)
{
    TilesMemory const memory(plan.x, vector_elements(type), int(kSectorBytes / size_of(type)), plan.blocks);
    return size_t(kTilesStages) * kTilesThreads * kTilesPacks * kVectorBytes + memory.floats() * sizeof(float);
}

// Of compute capability 9.0; reserved is the system's part of a block's, and the kernel's own barriers.
constexpr size_t kSharedOfMultiprocessor = 228 << 10, kReservedOfBlock = (1 << 10) + 640;

// How many clusters the device holds at once.
template <class Kernel>
cudaError_t resident_clusters(Kernel* kernel, cudaLaunchConfig_t const& config, int blocks, int& clusters)
{
    auto const key = std::make_tuple(kernel, blocks, config.blockDim.x, config.dynamicSmemBytes);
    return remembered(key, clusters, [&](int, int& count) {
        cudaError_t const status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
            int(kSharedOfMultiprocessor - kReservedOfBlock));
        return status == cudaSuccess ? cudaOccupancyMaxActiveClusters(&count, kernel, &config) : status;
    });
}

// As many clusters as the device holds, and no more than there are items for.
template <class... Parameters, class... Arguments>
cudaError_t launch_resident(void (*kernel)(Parameters...), int blocks, int threads, size_t shared, int64_t items,
    cudaStream_t on, Arguments const&... arguments)
{
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = on;
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters = 0;
    cudaError_t const status = resident_clusters(kernel, config, blocks, clusters);
    if (status != cudaSuccess || clusters == 0)
        return status != cudaSuccess ? status : cudaErrorInvalidConfiguration;
    config.gridDim = dim3(unsigned(blocks * std::min(items, int64_t(clusters))));
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

} // namespace

TilesPlan plan_tiles(Type type, int64_t channels, int x)
{
    int const y = kTilesThreads / x;
    TilesPlan const plan{next_power_of_two(ceil_div(channels, int64_t(y) * kTilesPacks)), x};
    bool const fits = plan.blocks <= kMostBlocksInCluster && y * size_of(type) % kSectorBytes == 0
        && tiles_bytes(plan, type) <= kSharedOfMultiprocessor - kReservedOfBlock;
    return fits && kStAsync && device().clusters ? plan : TilesPlan{0, 0};
}

cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if (inner >= (int64_t(1) << 30) || outer * inner > kMostBlocks)
        return cudaErrorInvalidValue;
    ChannelTiles const g = channel_tiles(plan, type, outer, channels, inner);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto width) {
            constexpr int X = decltype(width)::value;
            if constexpr (kTilesThreads / X * sizeof(T) % kSectorBytes == 0)
                return launch_resident(l2norm_tiles_kernel<T, X>, plan.blocks, kTilesThreads + kTilesAdders,
                    tiles_bytes(plan, type), g.items, on, static_cast<T const*>(x), weight, static_cast<T*>(y), g, norm,
                    tickets);
            return cudaErrorInvalidValue;
        };
        switch (plan.x)
        {
        case 8: return go(std::integral_constant<int, 8>{});
        case 16: return go(std::integral_constant<int, 16>{});
        case 32: return go(std::integral_constant<int, 32>{});
        case 64: return go(std::integral_constant<int, 64>{});
        }
        return cudaErrorInvalidValue;
    });
}

namespace
{

ImageShares image_shares(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), common = std::gcd(inner, vec);
    ImageShares g{};
    g.channels = int(channels);
    g.inner = int(inner);
    g.vectors = int(channels * inner / vec);
    g.period = int(inner / common);
    g.period_channels = int(vec / common);
    g.periods = int(ceil_div(ceil_div(int64_t(g.vectors), int64_t(g.period)), int64_t(plan.blocks)));
    g.groups = plan.groups;
    return g;
}

int image_threads(ImageShares const& g)
{
    return ceil_div(g.groups * g.period, 32) * 32 + kImagesMover;
}

size_t images_bytes(ImageShares const& g, Type type, int blocks)
{
    ImagesMemory const memory(g, vector_elements(type), blocks);
    return size_t(g.periods) * g.period * kVectorBytes + memory.end * sizeof(float);
}

} // namespace

bool images_fit(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), most = plan.blocks * int64_t(kSharedOfMultiprocessor - kReservedOfBlock);
    if (!kStAsync || !device().clusters || inner < vec || channels * inner % vec != 0
        || channels * inner * size_of(type) > most)
        return false;
    ImageShares const g = image_shares(plan, type, channels, inner);
    return image_threads(g) <= kMostImageThreads && ceil_div(g.periods, g.groups) <= kImagesAtOnce * kMostImagePieces
        && images_bytes(g, type, plan.blocks) <= kSharedOfMultiprocessor - kReservedOfBlock;
}

namespace
{

// The groups that keep enough memory and threads of a multiprocessor at work, and few lanes idle, where it holds as
// many blocks as wanted, or one with a whole image.
ImagesPlan best_groups(Type type, int64_t channels, int64_t inner, int blocks, int wanted)
{
    constexpr int kMostThreads = 896, kFewestPacks = 4; // threads that a multiprocessor has the registers for
    constexpr double kEnoughBytes = 110 << 10, kEnoughWorkers = 450, kAlone = 0.3 * kSharedOfMultiprocessor;
    ImagesPlan best{0, 0};
    double most = 0;
    for (ImagesPlan plan{blocks, 1};; ++plan.groups)
    {
        ImageShares const g = image_shares(plan, type, channels, inner);
        int const threads = image_threads(g), work = g.groups * g.period, packs = ceil_div(g.periods, g.groups);
        if (threads > kMostImageThreads || (g.groups > 1 && packs < kFewestPacks))
            return best;
        if (!images_fit(plan, type, channels, inner))
            continue;
        size_t const bytes = images_bytes(g, type, blocks) + kReservedOfBlock;
        int const resident = std::min(int(kSharedOfMultiprocessor / bytes), kMostThreads / threads);
        bool const alone = wanted == 2 && blocks == 1 && bytes > kAlone;
        double const busy = double(g.periods) * g.period / (packs * (threads - kImagesMover));
        double const worth = std::min(resident * double(bytes), kEnoughBytes)
            * std::min(double(resident) * work, kEnoughWorkers) * busy;
        if ((resident >= wanted || alone) && worth > most)
        {
            most = worth;
            best = plan;
        }
    }
}

ImagesPlan new_images_plan(Type type, int64_t channels, int64_t inner)
{
    for (int wanted : {3, 2})
        for (int blocks = 1; blocks <= kMostBlocksInCluster; blocks *= 2)
        {
            ImagesPlan const plan = best_groups(type, channels, inner, blocks, wanted);
            if (plan.blocks > 0)
                return plan;
        }
    return ImagesPlan{0, 0};
}

} // namespace

// The fewest blocks of which a multiprocessor holds three, else two. Made once for each shape: it takes longer than a
// launch.
ImagesPlan plan_images(Type type, int64_t channels, int64_t inner)
{
    static std::mutex mutex;
    static std::map<std::tuple<bool, Type, int64_t, int64_t>, ImagesPlan> known;
    if (!kStAsync || inner < vector_elements(type)
        || channels * inner > kMostBlocksInCluster * int64_t(kSharedOfMultiprocessor) / size_of(type))
        return ImagesPlan{0, 0};
    auto const key = std::make_tuple(device().clusters, type, channels, inner);
    std::lock_guard<std::mutex> const lock(mutex);
    auto const found = known.find(key);
    return found != known.end() ? found->second : known[key] = new_images_plan(type, channels, inner);
}

cudaError_t launch_l2norm_images(ImagesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if (!images_fit(plan, type, channels, inner) || outer > kMostBlocks)
        return cudaErrorInvalidValue;
    ImageShares g = image_shares(plan, type, channels, inner);
    g.images = unsigned(outer);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_images_kernel<T>, plan.blocks, image_threads(g),
            images_bytes(g, type, plan.blocks), outer, on, static_cast<T const*>(x), weight, static_cast<T*>(y), g,
            norm, tickets);
    });
}

namespace
{

size_t staged_bytes(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return size_t(plan.stages * plan.images * channels * inner * size_of(type)) + size_t(channels) * sizeof(float);
}

} // namespace

bool staged_fits(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return kStAsync && device().clusters && plan.images > 0 && plan.stages <= kMostStages
        && plan.images * channels * inner % vector_elements(type) == 0
        && plan.threads + kStagedMover <= kMostStagedImageThreads
        && staged_bytes(plan, type, channels, inner) <= kSharedOfMultiprocessor - kReservedOfBlock;
}

// Items of some KiB, or an image each, which begin on memory sectors if they can: elsewhere 8 channels of halves are at
// 0.86 to 0.90 of a copy rather than 0.95. Three of them, or two; so many threads that few have no column, and that
// there are three blocks where these have the memory.
StagedPlan plan_staged(Type type, int64_t channels, int64_t inner)
{
    constexpr int kFew = 16, kStages = 3, kBlocks = 3;
    constexpr int64_t kMostThreads = kMostStagedImageThreads - kStagedMover, kMostOfThree = 512;
    int64_t const size = size_of(type), image = channels * inner, item = ((channels < kFew ? 24 : 16) << 10) / size;
    auto const together = [&](int64_t elements) { return elements / std::gcd(image, elements); };
    int64_t const by_sectors = together(kSectorBytes / size);
    int64_t const step = by_sectors * image <= item ? by_sectors : together(kVectorBytes / size);
    int64_t const images = std::max(item / image / step, int64_t(1)) * step, columns = images * inner;
    int64_t const of_block = int64_t(kSharedOfMultiprocessor / kBlocks - kReservedOfBlock);
    bool const three = kStages * images * image * size <= of_block;
    int64_t const rounds = ceil_div(columns, three ? kMostOfThree : kMostThreads);
    StagedPlan plan{int(images), kStages, int(ceil_div(ceil_div(columns, rounds), int64_t(32)) * 32)};
    if (!staged_fits(plan, type, channels, inner))
        plan.stages = 2;
    return staged_fits(plan, type, channels, inner) ? plan : StagedPlan{0, 0, 0};
}

cudaError_t launch_l2norm_staged(StagedPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    int64_t const items = ceil_div(outer, int64_t(std::max(plan.images, 1)));
    if (!staged_fits(plan, type, channels, inner) || items > kMostBlocks)
        return cudaErrorInvalidValue;
    StagedImages const g{outer * channels * inner, unsigned(items), plan.images, int(channels), int(inner), plan.stages,
        FastDiv<uint32_t>(uint32_t(inner))};
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_few_channels_kernel<T>, 1, plan.threads + kStagedMover,
            staged_bytes(plan, type, channels, inner), items, on, static_cast<T const*>(x), weight, static_cast<T*>(y),
            g, norm, tickets);
    });
}

namespace
{

// Rows of LENGTH or more elements and at most kMostPeriodBytes.
template <int LENGTH, class T>
cudaError_t launch_l2norm_periods(T const* x, Scalars weight, T* y, int64_t rows, int64_t length, Norm norm, bool stream,
    cudaStream_t on)
{
    if constexpr (LENGTH * sizeof(T) > kMostPeriodBytes)
        return cudaErrorInvalidValue;
    else
    {
        if (length > LENGTH)
            return launch_l2norm_periods<LENGTH + 1>(x, weight, y, rows, length, norm, stream, on);
        using P = Period<T, LENGTH>;
        int64_t const blocks = ceil_div(rows, int64_t(P::ROWS_A_BLOCK));
        if (blocks > kMostBlocks)
            return cudaErrorInvalidValue;
        constexpr size_t shared = P::ROWS_A_BLOCK * LENGTH * sizeof(T);
        static_assert(shared <= 48 << 10, "more than a block has unasked");
        l2norm_periods_kernel<T, LENGTH><<<unsigned(blocks), kPeriodThreads, shared, on>>>(
            x, y, rows, weight, norm, stream);
        return cudaGetLastError();
    }
}

// Few channels that blocks of whole vectors would move in parts, or that cut lines.
StagedPlan plan_l2norm_staged(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kFewest = 8, kMost = 128, kLong = 1024;
    int64_t const bytes = inner * size_of(type);
    bool const whole = bytes % kLineBytes == 0 || (bytes % kVectorBytes == 0 && bytes >= kLong);
    if (whole || inner < 8 || channels > kMost || (channels < kFewest && bytes % 8 == 0))
        return StagedPlan{0, 0, 0};
    return plan_staged(type, channels, inner);
}

constexpr int kMostColumnThreads = 512;

// The widest tiles of which enough bytes are in use, where blocks of whole vectors would move single elements, cut
// lines or be narrow. Where a tensor stays in the L2 cache the latter two cost less.
TilesPlan plan_l2norm_tiles(Type type, int64_t channels, int64_t inner, bool stream)
{
    int64_t const bytes = inner * size_of(type);
    bool const split = bytes % (type == Type::kFloat ? 16 : 8) != 0;
    bool const cut = bytes % kLineBytes != 0 && channels > (stream ? 63 : 256);
    if (bytes < 2 * kLineBytes || channels < 32 || !(split || cut || channels > (stream ? 256 : 512)))
        return TilesPlan{0, 0};
    for (int x : {64, 32, 16, 8})
    {
        TilesPlan const plan = plan_tiles(type, channels, x);
        if (plan.blocks > 0 && x * kVectorBytes <= std::max(bytes, int64_t(2 * kLineBytes)))
            return plan;
    }
    return TilesPlan{0, 0};
}

// Whole images, where other mappings waste much: short channels, channels that cut vectors, and halves so few that they
// leave tiles half empty.
ImagesPlan plan_l2norm_images(Type type, int64_t channels, int64_t inner)
{
    int64_t const bytes = inner * size_of(type), fewest = bytes % 8 == 0 ? (12 << 10) / size_of(type) : 1 << 10;
    bool const halves = type != Type::kFloat, split = bytes % kVectorBytes != 0;
    if (bytes % kLineBytes == 0 || kLineBytes % bytes == 0 || channels * inner < fewest)
        return ImagesPlan{0, 0};
    ImagesPlan const plan = plan_images(type, channels, inner);
    bool const one_block = plan.blocks == 1 && (halves || bytes < 768), few = halves && channels <= 64;
    return bytes < 512 || (split && bytes < 1024) || one_block || few ? plan : ImagesPlan{0, 0};
}

} // namespace

cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, cudaStream_t on)
{
    if (inner > 1)
    {
        bool const stream = streams(2 * outer * channels * inner * size_of(type));
        StagedPlan const staged = stream ? plan_l2norm_staged(type, channels, inner) : StagedPlan{0, 0, 0};
        ImagesPlan const images
            = stream && staged.images == 0 ? plan_l2norm_images(type, channels, inner) : ImagesPlan{0, 0};
        TilesPlan const tiles = plan_l2norm_tiles(type, channels, inner, stream);
        if (!stream)
            tickets = nullptr;
        else if (staged.images > 0 || images.blocks > 0 || tiles.blocks > 0)
        {
            cudaError_t const status = zeroed_tickets(tickets, workspace, on);
            if (status != cudaSuccess)
                return status;
        }
        if (staged.images > 0)
            return launch_l2norm_staged(staged, type, x, weight, y, outer, channels, inner, norm, tickets, on);
        if (images.blocks > 0)
            return launch_l2norm_images(images, type, x, weight, y, outer, channels, inner, norm, tickets, on);
        if (tiles.blocks > 0)
            return launch_l2norm_tiles(tiles, type, x, weight, y, outer, channels, inner, norm, tickets, on);
        ColumnsPlan plan = plan_columns(type, outer, channels, inner);
        if (plan.x * plan.y > kMostColumnThreads)
            plan = ColumnsPlan{plan.pack_bytes, 1, 32, 1}; // too many channels for the registers
        return launch_l2norm_columns(plan, type, x, weight, y, outer, channels, inner, norm, on);
    }
    RowsPlan const plan = plan_rows(type, outer, channels, Device{});
    bool const stream = streams(2 * outer * channels * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (channels * sizeof(T) <= kMostPeriodBytes)
            return launch_l2norm_periods<1>(in, weight, out, outer, channels, norm, stream, on);
        cudaError_t status = cudaErrorInvalidConfiguration; // so far nothing has been launched
        if (plan.staged)
            status = launch_staged<T, Scalars, Norm>(
                {l2norm_staged_kernel<T, PlainWords>, l2norm_staged_kernel<T, TurningWords>,
                    l2norm_staged_kernel<T, RowVectors>},
                in, out, outer, channels, weight.data ? weight_place(int(channels)) * sizeof(float) : 0, stream, on,
                weight, norm);
        if (status != cudaErrorInvalidConfiguration)
            return status;
        if (plan.blocks != 1)
            return launch_long_columns<T>(in, weight, out, outer, channels, 1, norm, on);
        switch (plan.packs)
        {
        case 8: return launch_l2norm_rows<T, 8>(plan, in, weight, out, outer, channels, norm, stream, on);
        case 16: return launch_l2norm_rows<T, 16>(plan, in, weight, out, outer, channels, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace surgeon
