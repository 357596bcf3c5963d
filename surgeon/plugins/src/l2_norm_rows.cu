#include "launch.h"

namespace surgeon
{

namespace
{

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

cudaError_t l2norm_rows(
    Type type, void const* x, Scalars weight, void* y, int64_t rows, int64_t length, Norm norm, cudaStream_t on)
{
    RowsPlan const plan = plan_rows(type, rows, length, Device{});
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (length * sizeof(T) <= kMostPeriodBytes)
            return launch_periods(
                [](auto period) { return l2norm_periods_kernel<T, decltype(period)::LENGTH>; }, in, out, rows, length, on,
                weight, norm, stream);
        cudaError_t status = cudaErrorInvalidConfiguration; // so far nothing has been launched
        if (plan.staged)
            status = launch_staged<T, Scalars, Norm>(
                {l2norm_staged_kernel<T, PlainWords>, l2norm_staged_kernel<T, TurningWords>,
                    l2norm_staged_kernel<T, RowVectors>},
                in, out, rows, length, weight.data ? weight_place(int(length)) * sizeof(float) : 0, stream, on, weight,
                norm);
        if (status != cudaErrorInvalidConfiguration)
            return status;
        if (plan.blocks != 1)
            return launch_l2norm_columns(kReadTwice, type, x, weight, y, rows, length, 1, norm, on);
        switch (plan.packs)
        {
        case 8: return launch_l2norm_rows<T, 8>(plan, in, weight, out, rows, length, norm, stream, on);
        case 16: return launch_l2norm_rows<T, 16>(plan, in, weight, out, rows, length, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace surgeon
