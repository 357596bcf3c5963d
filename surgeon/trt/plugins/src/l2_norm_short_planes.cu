#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

int64_t short_planes_bytes(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), vectors = ceil_div(plan.images * channels * inner, vec) + 1;
    return vectors * kVectorBytes + channels * int64_t(sizeof(float));
}

// PlaneUnits of a number of elements that is known here only.
struct UnitsOfPlane
{
    int per, step, units, planes, banks;

    UnitsOfPlane(Type type, int inner)
        : per(std::max(std::gcd(inner, vector_elements(type)), 4 / int(size_of(type)))), step(std::lcm(inner, per)),
          units(step / per), planes(step / inner), banks(128 / (per * int(size_of(type))))
    {
    }
};

// Of so many neighbouring groups of lanes, the images begin in different banks.
int cycle_of(UnitsOfPlane const& u, int channels, int lanes)
{
    int const steps_of_lane = std::max(channels / u.planes / lanes, 1);
    int const groups = std::max(u.banks / lanes, 1); // that look at the memory at once
    return groups / std::gcd(steps_of_lane, groups);
}

// Of shared memory for a unit of each of a warp's lanes, where they begin.
int turns_of_unit(ShortPlanesPlan const& plan, UnitsOfPlane const& u, Type type, int channels, int inner)
{
    constexpr int kWarp = 32;
    int const size = int(size_of(type)), lanes = std::min(plan.lanes, kWarp), steps = channels / u.planes,
              cycle = cycle_of(u, channels, plan.lanes);
    int turns = 0;
    for (int first = 0; first < kWarp; first += u.banks) // those that look at once
    {
        std::vector<int> words;
        for (int thread = first; thread < std::min(first + u.banks, kWarp); ++thread)
        {
            int const group = thread / lanes, lane = thread % lanes;
            if (lane >= steps || group >= plan.images)
                continue;
            int const image = group * channels * inner, shifted = u.planes > 1 ? image % 2 : 0,
                      step = lane + group / cycle % ceil_div(steps - lane, plan.lanes) * plan.lanes;
            for (int k = 0; k < u.per * size / 4; ++k)
                words.push_back((image + shifted + step * u.step) * size / 4 + k);
        }
        turns += turns_at_banks(words);
    }
    return turns;
}

// Planes of INNER or more elements and at most kMostPlaneBytes.
template <int INNER, class T>
cudaError_t launch_short_planes(ShortPlanesPlan const& plan, T const* x, Scalars weight, T* y, ShortPlanes const& g,
    int64_t inner, Norm norm, size_t shared, bool stream, cudaStream_t on)
{
    if constexpr (INNER * sizeof(T) > kMostPlaneBytes)
        return cudaErrorInvalidValue;
    else
    {
        if (inner > INNER)
            return launch_short_planes<INNER + 1>(plan, x, weight, y, g, inner, norm, shared, stream, on);
        auto* const kernel = l2norm_short_planes_kernel<T, INNER>;
        int count = 0;
        cudaError_t const status = resident_blocks(kernel, plan.threads, shared, count);
        if (status != cudaSuccess || count == 0)
            return status != cudaSuccess ? status : cudaErrorInvalidConfiguration;
        int64_t const blocks = ceil_div(g.outer, int64_t(g.images));
        if (blocks > kMostBlocks)
            return cudaErrorInvalidValue;
        kernel<<<unsigned(blocks), plan.threads, shared, on>>>(x, weight, y, g, norm, stream);
        return cudaGetLastError();
    }
}

} // namespace

bool short_planes_fit(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    bool const lanes = plan.lanes == plan.threads || (plan.lanes > 0 && 32 % plan.lanes == 0);
    return plan.images > 0 && lanes && plan.threads > 0 && plan.threads % 32 == 0
        && plan.threads <= kMostShortPlanesThreads && inner > 1 && inner * size_of(type) <= kMostPlaneBytes
        && short_planes_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// A block takes its time: its own way, one of each vector of a thread to and from memory, a round of images, weights
// brought. All blocks of a multiprocessor share what it issues: a block's start, a lane's halves, which become floats
// and halves again, a column's sum between the lanes of an image, weights. So does its shared memory, which each unit
// asks three times. What the blocks hold at once beyond that costs a little; a span that ends inside a sector, or
// weights that end inside a vector, as much as some bytes more. Fitted to 18,000 timings of 480 shapes and types, with
// weights and without.
double speed_of(ShortPlanesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    constexpr double kBlock = 1349, kVector = 198, kRound = 721, kBrought = 377;               // ns of a block
    constexpr double kStart = 15.3, kHalf = 0.645, kSum = 0.429, kWeight = 0.07, kUnit = 2.5; // of a multiprocessor
    constexpr double kMost = 1.042, kOfHeld = 3.6e-7, kSoftOfFew = 0.086;
    constexpr double kCut = 340, kRest = 200; // bytes
    constexpr int kWarp = 32;
    if (plan.images == 0)
        return 0;
    UnitsOfPlane const u(type, int(inner));
    int64_t const bytes = plan.images * channels * inner * size_of(type),
                  blocks = ceil_div(outer, int64_t(plan.images)),
                  of_block = short_planes_bytes(plan, type, channels, inner) + kReservedOfBlock;
    double const resident = std::min(double(std::min(short_planes_threads(inner) / plan.threads,
                                         int(device().shared_bytes / of_block))),
        double(blocks) / std::max(device().multiprocessors, 1));
    int64_t const vectors = ceil_div(bytes / kVectorBytes, int64_t(plan.threads)),
                  rounds = ceil_div(plan.images, plan.threads / plan.lanes), of_warps = plan.threads / kWarp * rounds,
                  steps = std::max(ceil_div(channels / u.planes, int64_t(plan.lanes)), int64_t(1)),
                  brought = ceil_div(channels, int64_t(plan.threads * kWeightVectorsAtOnce * vector_elements(type)));
    double const halves = type == Type::kFloat ? 0 : double(steps * u.step),
                 sums = inner * std::log2(std::min(plan.lanes, kWarp)),
                 issue = kStart + of_warps * (halves * kHalf + sums * kSum),
                 weights = weighted ? brought * kBrought + resident * channels * kWeight : 0,
                 time = kBlock + vectors * kVector + rounds * kRound + resident * issue + weights;
    double const held = resident * bytes, cut = bytes % kSectorBytes != 0 ? kCut : 0,
                 rest = weighted && channels % vector_elements(type) != 0 ? kRest : 0,
                 most = (kMost - kOfHeld * held) * bytes / (bytes + cut + rest),
                 memory = double(of_warps * steps * u.units) * kUnit
        * turns_of_unit(plan, u, type, int(channels), int(inner));
    return std::min(least(held / time / kBytesOfNs, most, kSoftOfFew / resident), bytes / memory / kBytesOfNs);
}

namespace
{

// Some images by some lanes each, or one by a block.
Ranking<ShortPlanesPlan> ranked(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int64_t kSpan = 40 << 10;
    constexpr int kMostRounds = 8, kWarp = 32;
    Ranking<ShortPlanesPlan> plans;
    auto const consider = [&](ShortPlanesPlan const& plan) {
        if (short_planes_fit(plan, type, channels, inner))
            plans.consider(plan, speed_of(plan, type, outer, channels, inner, weighted));
    };
    int64_t const image = channels * inner * size_of(type);
    for (int const threads : {64, 128, kMostShortPlanesThreads})
    {
        consider(ShortPlanesPlan{1, threads, threads});
        for (int lanes = 1; lanes <= kWarp; lanes *= 2)
        {
            int const images = threads / lanes; // of a round
            consider(ShortPlanesPlan{images, lanes, threads});
            for (int rounds = 2; rounds <= kMostRounds && rounds * images * image <= kSpan; ++rounds)
                consider(ShortPlanesPlan{rounds * images, lanes, threads});
        }
    }
    return plans;
}

} // namespace

Ranking<ShortPlanesPlan> const& rank_short_planes(
    Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    static Ranking<ShortPlanesPlan> const none; // most tensors: not to be remembered for each number of images
    if (inner * size_of(type) > kMostPlaneBytes || channels * inner * size_of(type) > device().shared_bytes)
        return none;
    return planned_once<ranked>(type, outer, channels, inner, weighted);
}

cudaError_t launch_l2norm_short_planes(ShortPlanesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    if (!short_planes_fit(plan, type, channels, inner))
        return cudaErrorInvalidValue;
    int const cycle = cycle_of(UnitsOfPlane(type, int(inner)), int(channels), plan.lanes);
    ShortPlanes const g{outer, plan.images, int(channels), plan.lanes, cycle};
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    size_t const shared = short_planes_bytes(plan, type, channels, inner);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_short_planes<2>(plan, static_cast<T const*>(x), weight, static_cast<T*>(y), g, inner, norm,
            shared, stream, on);
    });
}

} // namespace surgeon
