#include "launch.h"

#include <algorithm>
#include <vector>

namespace surgeon
{

namespace
{

constexpr int kMostColumnThreads = 512;

bool cuts_lines(Type type, int64_t inner) { return inner * size_of(type) % kLineBytes != 0; }

// Where blocks of whole vectors would move single elements, cut lines or be narrow. Where a tensor stays in the L2
// cache the latter two cost less.
bool wants_tiles(Type type, int64_t channels, int64_t inner, bool stream)
{
    int64_t const bytes = inner * size_of(type);
    bool const split = bytes % (type == Type::kFloat ? 16 : 8) != 0;
    int64_t const few = !stream ? 256 : type == Type::kFloat ? 31 : 48; // for tiles
    bool const cut = cuts_lines(type, inner) && channels > few;
    return bytes >= 2 * kLineBytes && channels >= 32 && (split || cut || channels > (stream ? 256 : 512));
}

TilesPlan plan_l2norm_tiles(Type type, int64_t channels, int64_t inner, bool stream)
{
    return wants_tiles(type, channels, inner, stream) ? rank_tiles(type, channels, inner).best(kNoTiles) : kNoTiles;
}

// Blocks of memory, where the channels of many tiles would begin inside of them.
ExchangePlan plan_l2norm_exchange(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kMany = 1024, kShort = 8 << 10, kLong = 64 << 10;
    int64_t const bytes = inner * size_of(type);
    bool const does = cuts_lines(type, inner) && bytes >= (channels > kMany ? kShort : kLong);
    return does ? plan_exchange(type, channels) : ExchangePlan{0};
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

// For tensors that outgrow the L2 cache, by what each plan says of itself. Longer planes are not taken by whole images:
// nothing says how fast that is, and tiles do.
Ranking<Mapping> ranked(Type type, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int64_t kLong = 4 << 10, kMany = int64_t(1) << 30;
    constexpr double kStrips = 0.94;
    bool const whole = inner * size_of(type) <= kLong;
    TilesPlan const tiles = plan_l2norm_tiles(type, channels, inner, true);
    Ranking<Mapping> all;
    auto const take = [&](auto Mapping::*which, auto const& plan, double speed) {
        Mapping m;
        m.*which = plan;
        all.consider(m, speed);
    };
    auto const take_all = [&](auto Mapping::*which, auto const& plans) {
        for (auto const& entry : plans)
            take(which, entry.plan, entry.speed);
    };
    if (tiles.blocks > 0)
        take_all(&Mapping::tiles, rank_tiles(type, channels, inner));
    else
        all.consider(Mapping{}, speed_of_columns(type, channels, inner));
    if (!cuts_lines(type, inner) && inner * size_of(type) > kLineBytes)
        return all;
    StripsPlan const strips = plan_l2norm_strips(type, channels, inner);
    take(&Mapping::strips, strips, strips.width > 0 ? kStrips : 0);
    if (whole)
        take_all(&Mapping::images, rank_images(type, channels, inner));
    if (whole)
        take_all(&Mapping::spans, rank_spans(type, channels, inner, weighted));
    take_all(&Mapping::staged, rank_staged(type, channels, inner));
    take_all(&Mapping::planes, rank_short_planes(type, kMany, channels, inner, weighted));
    return all;
}

// Before all others, blocks of memory where tiles are best and would begin inside of them, and after all others the
// other clusters that such blocks could go over; where that cannot be launched, those tiles.
std::vector<Mapping> new_mappings(Type type, int64_t channels, int64_t inner, bool weighted)
{
    constexpr double kNear = 0.1; // no formula is farther from the truth
    constexpr int64_t kShortest = 4 << 10;
    Ranking<Mapping> const all = ranked(type, channels, inner, weighted);
    Mapping const first = all.best(Mapping{});
    auto const exchanging = [&](ExchangePlan const& plan) {
        Mapping m = first;
        m.exchange = plan;
        return m;
    };
    bool const exchanges
        = first.tiles.blocks > 0 && cuts_lines(type, inner) && inner * size_of(type) >= kShortest;
    ExchangePlan const exchange = exchanges ? plan_l2norm_exchange(type, channels, inner) : ExchangePlan{0};
    std::vector<Mapping> some;
    if (exchange.blocks > 0)
        some.push_back(exchanging(exchange));
    for (auto const& entry : all)
        if (entry.speed > all.begin()->speed - kNear)
            some.push_back(entry.plan);
    for (int blocks = 2; exchanges && blocks <= kMostBlocksInCluster; blocks *= 2)
        if (blocks != exchange.blocks && exchange_fits(ExchangePlan{blocks}, type, channels))
            some.push_back(exchanging(ExchangePlan{blocks}));
    return some.empty() ? std::vector<Mapping>{first} : some;
}

// In tensors that stay in the L2 cache blocks of vectors, or of halves of them, are as good as any but for short planes:
// lines may be cut there.
Mapping in_cache(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int64_t kHalfVector = kVectorBytes / 2;
    int64_t const bytes = inner * size_of(type);
    Mapping m;
    m.planes = rank_short_planes(type, outer, channels, inner, weighted).best(ShortPlanesPlan{0, 0, 0});
    if (m.planes.images > 0)
        return m;
    if (bytes < 2 * kLineBytes || bytes % kHalfVector != 0)
        return planned_once<ranked>(type, channels, inner, weighted).best(m);
    m.tiles = plan_l2norm_tiles(type, channels, inner, false);
    return m;
}

std::vector<Mapping> const& mappings(Type type, int64_t channels, int64_t inner, bool weighted)
{
    return planned_once<new_mappings>(type, channels, inner, weighted);
}

bool by_rows(int64_t channels, int64_t inner) { return inner == 1 || channels == 1; }
bool by_small_images(Type type, int64_t channels, int64_t inner)
{
    return channels * inner * size_of(type) <= kMostImagePeriodBytes;
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

int l2norm_tactics(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    bool const one = by_rows(channels, inner) || by_small_images(type, channels, inner)
        || !streams(2 * outer * channels * inner * size_of(type));
    return one ? 1 : int(mappings(type, channels, inner, weighted).size());
}

cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, int tactic, cudaStream_t on)
{
    if (by_rows(channels, inner))
        return l2norm_rows(type, x, weight, y, outer * inner, channels, norm, workspace, tickets, on);
    if (by_small_images(type, channels, inner))
        return l2norm_small_images(type, x, weight, y, outer, channels, inner, norm, on);
    bool const stream = streams(2 * outer * channels * inner * size_of(type)), weighted = weight.data != nullptr;
    auto const of_stream = [&] {
        auto const& some = mappings(type, channels, inner, weighted);
        return some[std::min(size_t(tactic), some.size() - 1)];
    };
    bool const exchanges = tickets != nullptr; // the workspace has no room for that
    Mapping const mapping = stream ? of_stream() : in_cache(type, outer, channels, inner, weighted);
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
    if (mapping.exchange.blocks > 0 && exchanges
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
