#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

constexpr int64_t kBanks = 128; // bytes of shared memory, side by side

// Columns of a unit.
int per_unit(Type type, int64_t inner)
{
    return type != Type::kFloat && inner % 2 == 0 ? 2 : 1;
}

int64_t images_bytes(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int const elements = int(plan.images * channels * inner);
    int64_t const room = type == Type::kFloat ? stage_room<float>(elements) : stage_room<__half>(elements),
                  sums = plan.lanes > 1 ? 2 * kImagesWorkers * per_unit(type, inner) : 0;
    return plan.stages * room * size_of(type) + (channels + sums) * int64_t(sizeof(float));
}

// Whether neighbouring images begin in the same banks of shared memory, and would not if they began with neighbouring
// channels.
bool better_rotated(int64_t plane, int64_t image)
{
    return plane < std::gcd(image, kBanks) && std::gcd(image + plane, kBanks) < std::gcd(image, kBanks);
}

// Whether a warp's threads would better have one short plane of each image than all of some images: images of an odd
// number of words begin in banks of their own.
bool better_across(int64_t plane, int64_t image)
{
    constexpr int64_t kShort = 40, kWord = 4;
    return plane < kShort && std::gcd(image, kBanks) == kWord;
}

constexpr int kMostFewChannels = 7;

// For FEW or more channels.
template <class T, int PER, int FEW = 2>
auto kernel_of(ImageWay way, int64_t channels)
{
    if (way == ImageWay::kLanes)
        return l2norm_images_kernel<T, PER, ImageWay::kLanes, 0>;
    if (way == ImageWay::kRotated)
        return l2norm_images_kernel<T, PER, ImageWay::kRotated, 0>;
    if (way == ImageWay::kAcross)
        return l2norm_images_kernel<T, PER, ImageWay::kAcross, 0>;
    if constexpr (FEW > kMostFewChannels)
        return l2norm_images_kernel<T, PER, ImageWay::kAll, 0>;
    else
        return channels > FEW ? kernel_of<T, PER, FEW + 1>(way, channels)
                              : l2norm_images_kernel<T, PER, ImageWay::kAll, FEW>;
}

} // namespace

bool images_fit(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kMostOfLane = 1024; // channels: one sum of 20,001 squares of floats is 3e-6 off
    return kStAsync && device().clusters && channels > 1 && plan.images > 0 && plan.stages > 0 && plan.lanes > 0
        && channels <= plan.lanes * kMostOfLane && plan.stages <= kMostImagesStages
        && plan.images * channels * inner * size_of(type) <= device().shared_bytes
        && (plan.lanes == 1 || plan.lanes * inner / per_unit(type, inner) <= kImagesWorkers)
        && images_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// Items of some KiB, fewer where there would not be some for every block. Two blocks of a multiprocessor, or one where
// images are large. So many lanes that most workers have a job.
ImagesPlan plan_images(Type type, int64_t outer, int64_t channels, int64_t inner)
{
    constexpr int64_t kLeast = 4 << 10, kMost = 24 << 10, kItemsOfMultiprocessor = 4, kMostLanes = 64, kFewChannels = 4;
    int64_t const image = channels * inner * size_of(type);
    if (image > device().shared_bytes)
        return kNoImages;
    int64_t const share = outer * image / kItemsOfMultiprocessor / std::max(device().multiprocessors, 1),
                  item = std::clamp(share, kLeast, kMost);
    int const images = int(ceil_div(item, image));
    int64_t const units = images * inner / per_unit(type, inner),
                  lanes = std::min({kImagesWorkers / units, channels / kFewChannels, kMostLanes});
    ImagesPlan plan{images, kMostImagesStages, int(std::max(lanes, int64_t(1)))};
    int64_t const half = device().shared_bytes / 2 - kReservedOfBlock;
    while (plan.stages > 2 && images_bytes(plan, type, channels, inner) > half)
        --plan.stages;
    if (!images_fit(plan, type, channels, inner))
        plan.stages = 1;
    return images_fit(plan, type, channels, inner) ? plan : kNoImages;
}

cudaError_t launch_l2norm_images(ImagesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    int64_t const items = ceil_div(outer, int64_t(std::max(plan.images, 1)));
    if (!images_fit(plan, type, channels, inner) || items > kMostBlocks)
        return cudaErrorInvalidValue;
    int const per = per_unit(type, inner), units = int(inner / per);
    int64_t const plane = inner * size_of(type), image = channels * plane;
    ImageWay const way = plan.lanes > 1 ? ImageWay::kLanes
        : better_rotated(plane, image) ? ImageWay::kRotated
        : better_across(plane, image) && channels > kMostFewChannels ? ImageWay::kAcross : ImageWay::kAll;
    ImageItems const g{outer, unsigned(items), plan.images, int(channels), int(inner), plan.stages, units, plan.lanes,
        FastDiv<uint32_t>(uint32_t(units)),
        FastDiv<uint32_t>(uint32_t(way == ImageWay::kAcross ? plan.images : units * plan.lanes))};
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto* const kernel
            = per == 1 ? kernel_of<T, 1>(way, channels) : kernel_of<T, 4 / sizeof(T)>(way, channels);
        return launch_resident(kernel, 1, kImagesWorkers + kImagesMover, images_bytes(plan, type, channels, inner),
            items, on, static_cast<T const*>(x), weight, static_cast<T*>(y), g, norm, tickets);
    });
}

} // namespace surgeon
