#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

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

// What blocks of whole vectors make, where no channel cuts one: long planes, or short ones of which a line holds some.
// Halves' may be of 8 bytes.
double speed_of_columns(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kMany = 512;
    constexpr double kFloats = 0.95, kHalves = 0.9, kHalfVectors = 0.85, kOfLine = 0.96;
    int64_t const bytes = inner * size_of(type);
    bool const halves = type != Type::kFloat;
    if (bytes % (halves ? 8 : kVectorBytes) != 0)
        return 0;
    if (bytes >= 2 * kLineBytes)
        return bytes % kVectorBytes != 0 ? kHalfVectors : halves ? kHalves : kFloats;
    return bytes > kMostPlaneBytes && kLineBytes % bytes == 0 && channels <= kMany ? kOfLine : 0;
}

// Few long channels that cut vectors, of halves lines: so few that tiles would be half empty.
StripsPlan plan_l2norm_strips(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kShortest = 2048;
    bool const halves = type != Type::kFloat;
    int64_t const bytes = inner * size_of(type), most = halves ? 52 : 40;
    bool const does
        = bytes % (halves ? kLineBytes : kVectorBytes) != 0 && bytes >= kShortest && channels <= most;
    return does ? plan_strips(type, channels, inner) : StripsPlan{0, 0, 0};
}

// One of these; columns where there is none.
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
};

// The fastest in tensors that outgrow the L2 cache, by what each plan says of itself; columns where that is none of
// those that stay on the device. Longer planes are not taken by whole images: nothing says how fast that is, and
// tiles do.
Mapping fastest(Type type, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int64_t kLong = 4 << 10, kMany = int64_t(1) << 30;
    constexpr double kStrips = 0.94;
    bool const whole = inner * size_of(type) <= kLong;
    TilesPlan const tiles = plan_l2norm_tiles(type, channels, inner, true);
    StagedPlan const staged = plan_staged(type, channels, inner);
    StripsPlan const strips = plan_l2norm_strips(type, channels, inner);
    ShortPlanesPlan const planes = plan_short_planes(type, kMany, channels, inner, weighted);
    ImagesPlan const images = whole ? plan_images(type, channels, inner) : ImagesPlan{0, 0};
    SpansPlan const spans = whole ? plan_spans(type, channels, inner, weighted) : SpansPlan{0, 0, 0, 0};
    Mapping m;
    double most = tiles.blocks == 0 ? speed_of_columns(type, channels, inner) : 0;
    auto const take = [&](double speed, auto Mapping::*which, auto const& plan) {
        if (!(speed > most))
            return;
        most = speed;
        m = Mapping{};
        m.*which = plan;
    };
    take(speed_of(tiles, type, channels, inner), &Mapping::tiles, tiles);
    take(strips.width > 0 ? kStrips : 0, &Mapping::strips, strips);
    take(speed_of(images, type, channels, inner), &Mapping::images, images);
    take(speed_of(spans, type, channels, inner, weighted), &Mapping::spans, spans);
    take(speed_of(staged, type, channels, inner), &Mapping::staged, staged);
    take(speed_of(planes, type, kMany, channels, inner, weighted), &Mapping::planes, planes);
    return m;
}

// In tensors that stay in the L2 cache blocks of vectors, or of halves of them, are as good as any but for short planes:
// lines may be cut there.
Mapping choose(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted, bool stream, bool tickets)
{
    constexpr int64_t kHalfVector = kVectorBytes / 2;
    int64_t const bytes = inner * size_of(type);
    Mapping m;
    if (!stream)
        m.planes = plan_short_planes(type, outer, channels, inner, weighted);
    if (m.planes.images > 0)
        return m;
    bool const in_vectors = stream ? bytes > kLineBytes && bytes % kLineBytes == 0
                                   : bytes >= 2 * kLineBytes && bytes % kHalfVector == 0;
    if (in_vectors)
        m.tiles = plan_l2norm_tiles(type, channels, inner, stream);
    else
        m = planned_once<fastest>(type, channels, inner, weighted);
    if (stream && tickets && m.tiles.blocks > 0)
        m.exchange = plan_l2norm_exchange(type, channels, inner);
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
    if (channels * inner * size_of(type) <= kMostImagePeriodBytes)
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
