//go:build cgo

package gpu

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// health asks for everything that tells of a card that fails, or is held back.
// Consumer cards answer little of it.
func (n *nvmlDriver) health(h handle) Health {
	health := Health{Recovery: n.recovery(h)}
	errors, code := read(n, func() (uint64, nvml.Return) {
		return h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	}, "nvmlDeviceGetTotalEccErrors")
	if code == 0 {
		health.ECCUncorrected = &errors
	}
	rows, code := read(n, func() (remappedRows, nvml.Return) {
		_, _, pending, failed, ret := h.GetRemappedRows()
		return remappedRows{pending, failed}, ret
	}, "nvmlDeviceGetRemappedRows")
	if code == 0 {
		health.RemapPending, health.RemapFailed = rows.pending, rows.failed
	}
	// Cards before Ampere retire pages instead.
	if pages, code := read(n, h.GetRetiredPagesPendingStatus, "nvmlDeviceGetRetiredPagesPendingStatus"); code == 0 {
		health.RemapPending = health.RemapPending || pages == nvml.FEATURE_ENABLED
	}
	if milliwatts, code := read(n, h.GetPowerManagementLimit, "nvmlDeviceGetPowerManagementLimit"); code == 0 {
		health.PowerLimit = new(float64(milliwatts) / 1000)
	}
	if milliwatts, code := read(n, h.GetPowerManagementDefaultLimit, "nvmlDeviceGetPowerManagementDefaultLimit"); code == 0 {
		health.PowerDefault = new(float64(milliwatts) / 1000)
	}
	return health
}

type remappedRows struct{ pending, failed bool }

// recoveries are NVML's numbers of the actions.
var recoveries = map[nvml.DeviceGpuRecoveryAction]Recovery{
	nvml.GPU_RECOVERY_ACTION_GPU_RESET:           RecoveryReset,
	nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:         RecoveryReboot,
	nvml.GPU_RECOVERY_ACTION_DRAIN_P2P:           RecoveryDrainP2P,
	nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:     RecoveryDrainReset,
	nvml.GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: RecoveryIMEX,
	nvml.GPU_RECOVERY_ACTION_BUS_RESET:           RecoveryBusReset,
	nvml.GPU_RECOVERY_ACTION_SYSTEM_REBOOT:       RecoveryReboot,
}

// recovery is what the driver asks for; none where it does not know the field.
func (n *nvmlDriver) recovery(h handle) Recovery {
	field := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	_, code := read(n, func() (struct{}, nvml.Return) {
		return struct{}{}, h.GetFieldValues(field)
	}, "nvmlDeviceGetFieldValues")
	if code != 0 || nvml.Return(field[0].NvmlReturn) != nvml.SUCCESS || nvml.ValueType(field[0].ValueType) != nvml.VALUE_TYPE_UNSIGNED_INT {
		return RecoveryNone
	}
	action := binary.NativeEndian.Uint32(field[0].Value[:4])
	return recoveries[nvml.DeviceGpuRecoveryAction(action)]
}
