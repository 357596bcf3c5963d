#include "launch.h"

namespace surgeon
{

namespace
{

// With weights a thread has too many registers for large blocks of few vectors.
constexpr int kMostWeightedThreads = 256, kFewPacks = 8, kManyPacks = 16;

template <class T, class W>
cudaError_t launch_l2norm_rows(RowsPlan plan, T const* x, W const* weights, T* y, int64_t rows, int64_t length,
    Norm norm, bool stream, cudaStream_t on)
{
    if (weights && plan.packs == kFewPacks && plan.threads > kMostWeightedThreads)
    {
        plan.packs = kManyPacks;
        plan.lanes = plan.threads = ceil_div(plan.threads / 2, 32) * 32;
    }
    int64_t const blocks = ceil_div(rows, int64_t(plan.threads / plan.lanes));
    auto* const kernel
        = plan.packs == kFewPacks ? l2norm_rows_kernel<T, kFewPacks, W> : l2norm_rows_kernel<T, kManyPacks, W>;
    return launch_kernel(
        kernel, blocks, plan.threads, 0, on, x, weights, y, rows, int(length), plan.lanes, norm, stream);
}

// That of `inner`, a divisor of LENGTH from INNER to LENGTH / 2, or 1 where that is no image.
template <class T, int LENGTH, int INNER = 1>
auto periods_kernel(int64_t inner)
{
    if constexpr (INNER < LENGTH / 2 && LENGTH * sizeof(T) <= kMostImagePeriodBytes)
        if (inner > INNER)
            return periods_kernel<T, LENGTH, INNER + 1>(inner);
    return l2norm_periods_kernel<T, LENGTH, LENGTH % INNER == 0 ? INNER : 1>;
}

template <class T>
cudaError_t l2norm_periods(T const* x, Scalars weight, T* y, int64_t rows, int64_t length, int64_t inner, Norm norm,
    bool stream, cudaStream_t on)
{
    return with_period<T, kMostPeriodBytes>(length, [&](auto period) {
        using P = decltype(period);
        constexpr int kWarp = 32;
        auto const blocks_of = [&](int threads) { return ceil_div(rows, int64_t(P::rows_of(threads))); };
        int const threads = spread_threads(P::THREADS, kWarp, blocks_of);
        int64_t const blocks = blocks_of(threads);
        size_t const shared = P::rows_of(threads) * P::LENGTH * sizeof(T);
        return launch_kernel(periods_kernel<T, P::LENGTH>(inner), blocks, threads, shared, on, x, y, rows,
            weight, norm, stream);
    });
}

template <class T>
cudaError_t l2norm_staged(
    T const* x, Scalars weight, T* y, int64_t rows, int64_t length, Norm norm, bool stream, cudaStream_t on)
{
    // What weights cost lanes more, where rows begin inside vectors, exceeds what lanes gain.
    constexpr int kMostWeightedWordBytes = 432;
    bool const crooked = length % (kVectorBytes / int(sizeof(T))) != 0;
    int const lanes
        = staged_lanes(length * sizeof(T), weight.data && crooked ? kMostWeightedWordBytes : kMostWordBytes);
    auto const floats = lanes > 1 ? StagedVectorWeights<T>::floats : StagedWordWeights<T>::floats;
    return launch_staged<T, Scalars, Norm>(
        {l2norm_staged_kernel<T, PlainWords>, l2norm_staged_kernel<T, TurningWords>,
            l2norm_staged_kernel<T, RowVectors>},
        x, y, rows, length, lanes, weight.data ? floats(int(length)) * sizeof(float) : 0, stream, on, weight, norm);
}

} // namespace

cudaError_t l2norm_small_images(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, cudaStream_t on)
{
    if (channels < 2 || inner < 1 || channels * inner * size_of(type) > kMostImagePeriodBytes)
        return cudaErrorInvalidValue;
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return l2norm_periods(static_cast<T const*>(x), weight, static_cast<T*>(y), outer, channels * inner, inner,
            norm, stream, on);
    });
}

cudaError_t l2norm_rows(Type type, void const* x, Scalars weight, void* y, int64_t rows, int64_t length, Norm norm,
    cudaStream_t on)
{
    RowsPlan const plan = plan_rows(type, rows, length, Device{});
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (length * sizeof(T) <= kMostPeriodBytes)
            return l2norm_periods(in, weight, out, rows, length, 1, norm, stream, on);
        cudaError_t status = cudaErrorInvalidConfiguration; // so far nothing has been launched
        if (plan.staged)
            status = l2norm_staged(in, weight, out, rows, length, norm, stream, on);
        if (status != cudaErrorInvalidConfiguration)
            return status;
        if (plan.blocks != 1)
            return launch_l2norm_columns(kReadTwice, type, x, weight, y, rows, length, 1, norm, on);
        auto const launch = [&](auto const* weights) {
            return launch_l2norm_rows(plan, in, weights, out, rows, length, norm, stream, on);
        };
        if (!weight.data)
            return launch(weight.data);
        return weight.type == Type::kFloat ? launch(static_cast<float const*>(weight.data))
                                           : launch(static_cast<T const*>(weight.data));
    });
}

} // namespace surgeon
