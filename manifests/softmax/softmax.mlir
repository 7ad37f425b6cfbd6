module @softmax {
  func.func @main(%scores: tensor<4x8xf32> loc("scores")) -> tensor<4x8xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %max = stablehlo.reduce(%scores init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %maxes = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
    %shifted = stablehlo.subtract %scores, %maxes : tensor<4x8xf32>
    %raised = stablehlo.exponential %shifted : tensor<4x8xf32>
    %sum = stablehlo.reduce(%raised init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %sums = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
    %found = stablehlo.divide %raised, %sums : tensor<4x8xf32>
    return %found : tensor<4x8xf32>
  }
}
