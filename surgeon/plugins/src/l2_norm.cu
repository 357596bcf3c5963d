#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

// Few channels, or more where a multiprocessor has enough columns at once; not where blocks of whole lines do as well.
StagedPlan plan_l2norm_staged(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kMost = 128;
    int64_t const enough = type == Type::kFloat ? 76 : 180;
    bool const whole = inner * size_of(type) % kLineBytes == 0;
    StagedPlan const plan = plan_staged(type, channels, inner);
    bool const does = channels <= kMost || staged_columns(plan, type, channels, inner) >= enough;
    return does && !whole ? plan : StagedPlan{0, 0, 0};
}

constexpr int kMostColumnThreads = 512;

// Where blocks of whole vectors would move single elements, cut lines or be narrow. Where a tensor stays in the L2
// cache the latter two cost less.
TilesPlan plan_l2norm_tiles(Type type, int64_t channels, int64_t inner, bool stream)
{
    int64_t const bytes = inner * size_of(type);
    bool const split = bytes % (type == Type::kFloat ? 16 : 8) != 0;
    int64_t const few = !stream ? 256 : type == Type::kFloat ? 31 : 48; // for tiles
    bool const cut = bytes % kLineBytes != 0 && channels > few;
    if (bytes < 2 * kLineBytes || channels < 32 || !(split || cut || channels > (stream ? 256 : 512)))
        return kNoTiles;
    return plan_tiles(type, channels, inner);
}

// Blocks of memory, where the channels of many tiles would begin inside of them.
ExchangePlan plan_l2norm_exchange(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kMany = 1024, kShort = 8 << 10, kLong = 64 << 10;
    int64_t const bytes = inner * size_of(type);
    bool const cut = bytes % kLineBytes != 0, does = bytes >= (channels > kMany ? kShort : kLong);
    return cut && does ? plan_exchange(type, channels) : ExchangePlan{0};
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

// Images that begin inside of sectors, or that other mappings would move by single elements, or by tiles of so short
// rows that what each of these costs counts. `images` and `tiles`: what would do instead.
SpansPlan plan_l2norm_spans(
    Type type, int64_t channels, int64_t inner, ImagesPlan const& images, TilesPlan const& tiles)
{
    constexpr int64_t kLong = 4 << 10, kMany = 512, kLarge = 800 << 10;
    int64_t const bytes = inner * size_of(type), image = channels * bytes;
    bool const halves = type != Type::kFloat, split = bytes % kVectorBytes != 0;
    bool does = split || (bytes < kLineBytes && channels > kMany);
    if (images.blocks > 0)
        does = image <= (520 << 10) && image % kLineBytes != 0
            && (image % kSectorBytes != 0 || (!halves && image <= (128 << 10)));
    else if (tiles.blocks > 0)
        does = split && (halves ? bytes < 720 : bytes < 512 && image <= kLarge);
    bool const whole = bytes % kLineBytes == 0;
    return does && !whole && bytes <= kLong ? plan_spans(type, channels, inner) : SpansPlan{0, 0, 0, 0};
}

// Few long channels that cut vectors: so few that tiles would be half empty. Of halves also some more that cut lines.
StripsPlan plan_l2norm_strips(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kShortest = 2048, kMany = 40;
    bool const halves = type != Type::kFloat;
    int64_t const bytes = inner * size_of(type), most = halves ? 52 : 40;
    bool const split = bytes % kVectorBytes != 0, cut = halves && channels >= kMany && bytes % kLineBytes != 0;
    bool const does = (split || cut) && bytes >= kShortest && channels <= most;
    return does ? plan_strips(type, channels, inner) : StripsPlan{0, 0, 0};
}

// The first that does; columns where none does.
struct Mapping
{
    ShortPlanesPlan planes{0, 0, 0};
    StagedPlan staged{0, 0, 0};
    StripsPlan strips{0, 0, 0};
    ImagesPlan images{0, 0};
    SpansPlan spans{0, 0, 0, 0};
    ExchangePlan exchange{0};
    TilesPlan tiles = kNoTiles;

    bool draws() const
    {
        return staged.images > 0 || strips.width > 0 || images.blocks > 0 || spans.blocks > 0 || exchange.blocks > 0
            || tiles.blocks > 0;
    }
    bool columns() const { return planes.images == 0 && !draws(); }
};

// Images of short planes of which a multiprocessor holds fewer than three are other mappings' if they can, and from the
// L2 cache planes of two vectors.
Mapping choose(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted, bool stream, bool tickets)
{
    constexpr int64_t kThird = 72 << 10;
    int64_t const bytes = inner * size_of(type), weights = stream && weighted ? sizeof(float) : 0;
    ShortPlanesPlan planes{0, 0, 0};
    if (stream || bytes != 2 * kVectorBytes)
        planes = plan_short_planes(type, outer, channels, inner, weighted);
    Mapping m;
    if (channels * (bytes + weights) <= kThird)
        m.planes = planes;
    if (stream && m.columns())
        m.staged = plan_l2norm_staged(type, channels, inner);
    if (stream && m.columns())
        m.strips = plan_l2norm_strips(type, channels, inner);
    ImagesPlan const images = stream && m.columns() ? plan_l2norm_images(type, channels, inner) : ImagesPlan{0, 0};
    bool const tiled = m.columns() && images.blocks == 0;
    TilesPlan const tiles = tiled ? plan_l2norm_tiles(type, channels, inner, stream) : kNoTiles;
    if (stream && m.columns())
        m.spans = plan_l2norm_spans(type, channels, inner, images, tiles);
    if (m.columns())
        m.images = images;
    if (m.columns())
        m.tiles = tiles;
    if (stream && tickets && m.tiles.blocks > 0)
        m.exchange = plan_l2norm_exchange(type, channels, inner);
    if (m.columns())
        m.planes = planes;
    return m;
}

// A driver without tensor copies refuses, or a device of which others have a part: nothing has been launched then, or it
// is done again, and another mapping goes on.
bool launched(cudaError_t status)
{
    if (status != cudaSuccess)
        cudaGetLastError();
    return status == cudaSuccess;
}

} // namespace

cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, cudaStream_t on)
{
    if (inner == 1 || channels == 1)
        return l2norm_rows(type, x, weight, y, outer * inner, channels, norm, workspace, tickets, on);
    if (channels * inner * size_of(type) <= kMostL2PeriodBytes)
        return l2norm_small_images(type, x, weight, y, outer, channels, inner, norm, on);
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    Mapping const mapping = choose(type, outer, channels, inner, weight.data != nullptr, stream, tickets != nullptr);
    cudaError_t const status = ready_tickets(tickets, stream && mapping.draws(), workspace, on);
    if (status != cudaSuccess)
        return status;
    if (mapping.planes.images > 0)
        return launch_l2norm_short_planes(mapping.planes, type, x, weight, y, outer, channels, inner, norm, on);
    if (mapping.staged.images > 0)
        return launch_l2norm_staged(mapping.staged, type, x, weight, y, outer, channels, inner, norm, tickets, on);
    if (mapping.strips.width > 0)
        return launch_l2norm_strips(mapping.strips, type, x, weight, y, outer, channels, inner, norm, tickets, on);
    if (mapping.spans.blocks > 0)
        return launch_l2norm_spans(mapping.spans, type, x, weight, y, outer, channels, inner, norm, tickets, on);
    if (mapping.images.blocks > 0)
        return launch_l2norm_images(mapping.images, type, x, weight, y, outer, channels, inner, norm, tickets, on);
    if (mapping.exchange.blocks > 0
        && launched(launch_l2norm_exchange(
            mapping.exchange, type, x, weight, y, outer, channels, inner, norm, tickets, on)))
        return cudaSuccess;
    if (mapping.tiles.blocks > 0
        && launched(
            launch_l2norm_tiles(mapping.tiles, type, x, weight, y, outer, channels, inner, norm, tickets, on)))
        return cudaSuccess;
    ColumnsPlan const plan = plan_columns(type, outer, channels, inner);
    bool const fits = plan.x * plan.y <= kMostColumnThreads; // the registers
    return launch_l2norm_columns(fits ? plan : kReadTwice, type, x, weight, y, outer, channels, inner, norm, on);
}

} // namespace surgeon
